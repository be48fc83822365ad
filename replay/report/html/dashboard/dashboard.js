// Hides rows that do not match; what was looked for is in the address, so that a link shows it again.
const words = document.getElementById("words"), verdict = document.getElementById("verdict");
const count = document.getElementById("count"), rows = [...document.querySelectorAll("tr[data-find]")];
const texts = rows.map((row) => row.dataset.find.toLowerCase());

function find() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean), chosen = verdict.value;
  let left = 0;
  rows.forEach((row, at) => {
    const found = wanted.every((word) => texts[at].includes(word)) &&
      (!chosen || ` ${row.dataset.verdicts} `.includes(` ${chosen} `));
    row.classList.toggle("hidden", !found);
    left += found;
  });
  for (const section of document.querySelectorAll("section.changes"))
    section.classList.toggle("hidden", !section.querySelector("tr[data-find]:not(.hidden)"));
  count.textContent = wanted.length || chosen ? `${left.toLocaleString()} of ${rows.length.toLocaleString()} rows` : "";
}

function remember() {
  find();
  const asked = new URLSearchParams();
  if (words.value) asked.set("q", words.value);
  if (verdict.value) asked.set("verdict", verdict.value);
  history.replaceState(null, "", asked.size ? `#${asked}` : location.pathname);
}

function recall() {
  const asked = new URLSearchParams(location.hash.slice(1));
  words.value = asked.get("q") || "";
  verdict.value = asked.get("verdict") || "";
  find();
}

words.addEventListener("input", remember);
verdict.addEventListener("change", remember);
window.addEventListener("hashchange", recall);
recall();
