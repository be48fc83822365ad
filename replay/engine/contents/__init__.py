"""What captured memory, arrays and tensor maps hold: loaded, restored, written out."""
