"""CUDA arrays, and what kernels reach them through: texture and surface objects and references, tensor maps.

An array has no address. Its contents are in the capture under an address of the shim's own (replay/raw/FORMAT.md), so
copies that name an array are CUSTOM: the shim says which part of which array they touch.
"""

from __future__ import annotations

from replay.api.rows import ALWAYS, NEVER, OPAQUE, WINDOW, F, host_read, host_write, inputs, reads, writes
from replay.api.vocabulary import Effect

# fmt: off

# ---- arrays -----------------------------------------------------------------------------------------------

F(750, "cuArrayCreate_v2", ALWAYS, custom="array", creates="CUarray", leave="array_leave")
F(751, "cuArray3DCreate_v2", ALWAYS, custom="array", creates="CUarray", leave="array_leave")
F(752, "cuArrayDestroy", ALWAYS, Effect.DESTROY, "hArray")
F(753, "cuArrayGetDescriptor_v2", NEVER)
F(754, "cuArray3DGetDescriptor_v2", NEVER)
F(755, "cuArrayGetMemoryRequirements", NEVER)
F(756, "cuArrayGetSparseProperties", NEVER)
F(757, "cuArrayGetPlane", ALWAYS)
F(758, "cuMipmappedArrayCreate", ALWAYS, custom="array", creates="CUmipmappedArray", leave="array_leave")
F(759, "cuMipmappedArrayDestroy", ALWAYS, Effect.DESTROY, "hMipmappedArray")
F(760, "cuMipmappedArrayGetLevel", ALWAYS)
F(761, "cuMipmappedArrayGetMemoryRequirements", NEVER)
F(762, "cuMipmappedArrayGetSparseProperties", NEVER)
F(763, "cuMemMapArrayAsync", WINDOW, mapInfoList=OPAQUE, unsupported="sparse arrays are not captured")

# ---- copies -----------------------------------------------------------------------------------------------

F(770, "cuMemcpyAtoA_v2", WINDOW, Effect.CUSTOM)
F(771, "cuMemcpyAtoD_v2", WINDOW, Effect.CUSTOM, touches=(writes("dstDevice", "ByteCount"),))
F(772, "cuMemcpyAtoH_v2", WINDOW, Effect.CUSTOM, dstHost=host_write("ByteCount"), synchronizes=True)
F(773, "cuMemcpyAtoHAsync_v2", WINDOW, Effect.CUSTOM, dstHost=host_write("ByteCount"))
F(774, "cuMemcpyDtoA_v2", WINDOW, Effect.CUSTOM, touches=(reads("srcDevice", "ByteCount"),))
F(775, "cuMemcpyHtoA_v2", WINDOW, Effect.CUSTOM, srcHost=host_read("ByteCount"))
F(776, "cuMemcpyHtoAAsync_v2", WINDOW, Effect.CUSTOM, srcHost=host_read("ByteCount"))

# ---- texture and surface objects --------------------------------------------------------------------------

F(780, "cuTexObjectCreate", ALWAYS, custom="object", creates="CUtexObject")
F(781, "cuTexObjectDestroy", ALWAYS, Effect.DESTROY, "texObject")
F(782, "cuTexObjectGetResourceDesc", NEVER)
F(783, "cuTexObjectGetTextureDesc", NEVER)
F(784, "cuTexObjectGetResourceViewDesc", NEVER)
F(785, "cuSurfObjectCreate", ALWAYS, custom="object", creates="CUsurfObject")
F(786, "cuSurfObjectDestroy", ALWAYS, Effect.DESTROY, "surfObject")
F(787, "cuSurfObjectGetResourceDesc", NEVER)

# ---- texture and surface references -----------------------------------------------------------------------

F(790, "cuModuleGetTexRef", ALWAYS)
F(791, "cuModuleGetSurfRef", ALWAYS)
F(792, "cuTexRefCreate", ALWAYS, creates="CUtexref")
F(793, "cuTexRefDestroy", ALWAYS, Effect.DESTROY, "hTexRef")
F(794, "cuTexRefSetArray", ALWAYS, replaces="binding", after="follow_binding")
F(795, "cuTexRefSetMipmappedArray", ALWAYS, replaces="binding", after="follow_binding")
F(796, "cuTexRefSetAddress_v2", ALWAYS, touches=(reads("dptr", "bytes"),), replaces="binding", after="follow_binding")
F(797, "cuTexRefSetAddress2D_v3", ALWAYS, custom="texture_reference", replaces="binding", after="follow_binding")
F(798, "cuTexRefSetAddress2D_v2", ALWAYS, custom="texture_reference", replaces="binding", after="follow_binding")
F(799, "cuTexRefSetFormat", ALWAYS)
F(800, "cuTexRefSetAddressMode", ALWAYS)
F(801, "cuTexRefSetFilterMode", ALWAYS)
F(802, "cuTexRefSetMipmapFilterMode", ALWAYS)
F(803, "cuTexRefSetMipmapLevelBias", ALWAYS)
F(804, "cuTexRefSetMipmapLevelClamp", ALWAYS)
F(805, "cuTexRefSetMaxAnisotropy", ALWAYS)
F(806, "cuTexRefSetBorderColor", ALWAYS, pBorderColor=inputs("4"))
F(807, "cuTexRefSetFlags", ALWAYS)
F(808, "cuSurfRefSetArray", ALWAYS, replaces="binding", after="follow_binding")
F(810, "cuTexRefGetAddress_v2", NEVER)
F(811, "cuTexRefGetArray", NEVER)
F(812, "cuTexRefGetMipmappedArray", NEVER)
F(813, "cuTexRefGetAddressMode", NEVER)
F(814, "cuTexRefGetFilterMode", NEVER)
F(815, "cuTexRefGetFormat", NEVER)
F(816, "cuTexRefGetMipmapFilterMode", NEVER)
F(817, "cuTexRefGetMipmapLevelBias", NEVER)
F(818, "cuTexRefGetMipmapLevelClamp", NEVER)
F(819, "cuTexRefGetMaxAnisotropy", NEVER)
F(820, "cuTexRefGetBorderColor", NEVER)
F(821, "cuTexRefGetFlags", NEVER)
F(822, "cuSurfRefGetArray", NEVER)
