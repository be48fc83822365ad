"""What an application shares with other processes, other devices and other interfaces."""

from __future__ import annotations

from replay.api.rows import ALWAYS, NEVER, OPAQUE, WINDOW, F, inputs
from replay.api.vocabulary import Effect

# fmt: off

# ---- other processes: memory that they gave is captured and replayed as plain memory, events as plain events ----

F(1030, "cuIpcGetMemHandle", NEVER, shares=True)
F(1031, "cuIpcGetEventHandle", NEVER)
F(1032, "cuIpcOpenMemHandle", ALWAYS, Effect.IMPORT, "pdptr", leave="import_leave")
F(1033, "cuIpcOpenMemHandle_v2", ALWAYS, Effect.IMPORT, "pdptr", leave="import_leave")
F(1034, "cuIpcCloseMemHandle", ALWAYS, Effect.FREE, "dptr")
F(1035, "cuIpcOpenEventHandle", ALWAYS, custom="event_of_another_process", creates="CUevent")
F(1036, "cuMemPoolImportPointer", ALWAYS, Effect.IMPORT, "ptr_out", shareData=inputs("1"),
  leave="import_leave")

# ---- memory and semaphores of other interfaces --------------------------------------------------------------

F(1040, "cuImportExternalMemory", NEVER, shares=True)  # its mappings are what matters
F(1041, "cuDestroyExternalMemory", NEVER)
F(1042, "cuExternalMemoryGetMappedBuffer", ALWAYS, Effect.IMPORT, "devPtr", leave="import_leave")
F(1043, "cuExternalMemoryGetMappedMipmappedArray", NEVER,
  unsupported="contents of images that belong to another interface are not read")
F(1044, "cuImportExternalSemaphore", NEVER, shares=True)
F(1045, "cuDestroyExternalSemaphore", NEVER)
F(1046, "cuSignalExternalSemaphoresAsync", NEVER)  # in a replay nobody waits for it
F(1047, "cuWaitExternalSemaphoresAsync", NEVER,
  unsupported="waits for another interface, whose writes are not captured")
F(1048, "cuFlushGPUDirectRDMAWrites", WINDOW, may_fail=True)

# ---- several devices as one ---------------------------------------------------------------------------------

_MULTICAST = "multicast objects join the memory of several devices, and a replay does not rebuild them"
_ENDPOINT = "logical endpoints reach memory of other devices and nodes, which are not captured"

F(1050, "cuMulticastCreate", NEVER, unsupported=_MULTICAST)
F(1051, "cuMulticastAddDevice", NEVER, unsupported=_MULTICAST)
F(1052, "cuMulticastBindMem", NEVER, unsupported=_MULTICAST)
F(1053, "cuMulticastBindMem_v2", NEVER, unsupported=_MULTICAST)
F(1054, "cuMulticastBindAddr", NEVER, unsupported=_MULTICAST)
F(1055, "cuMulticastBindAddr_v2", NEVER, unsupported=_MULTICAST)
F(1056, "cuMulticastUnbind", NEVER, unsupported=_MULTICAST)
F(1057, "cuMulticastGetGranularity", NEVER)
F(1060, "cuLogicalEndpointIdReserve", NEVER, unsupported=_ENDPOINT)
F(1061, "cuLogicalEndpointIdRelease", NEVER, unsupported=_ENDPOINT)
F(1062, "cuLogicalEndpointCreate", NEVER, unsupported=_ENDPOINT)
F(1063, "cuLogicalEndpointDestroy", NEVER, unsupported=_ENDPOINT)
F(1064, "cuLogicalEndpointAddDevice", NEVER, unsupported=_ENDPOINT)
F(1065, "cuLogicalEndpointBindMem", NEVER, unsupported=_ENDPOINT)
F(1066, "cuLogicalEndpointBindAddr", NEVER, unsupported=_ENDPOINT)
F(1067, "cuLogicalEndpointUnbind", NEVER, unsupported=_ENDPOINT)
F(1068, "cuLogicalEndpointImport", NEVER, unsupported=_ENDPOINT)
F(1069, "cuLogicalEndpointExport", NEVER, shares=True)
F(1070, "cuLogicalEndpointGetLimits", NEVER)
F(1071, "cuLogicalEndpointQuery", NEVER)
F(1072, "cuFabricCpyBatchAsync", WINDOW, shares=True, opList=OPAQUE,
  unsupported="copies to and from memory of other nodes, which is not captured")
F(1073, "cuDeviceGetCliqueCount", NEVER)
F(1074, "cuDeviceGetCliqueInfo", NEVER)
F(1075, "cuDeviceGetFabricClusterUuid", NEVER)

# ---- graphics and NvSci -------------------------------------------------------------------------------------

_GRAPHICS = "graphics interoperability: the resource belongs to OpenGL, Direct3D, Vulkan, EGL or VDPAU"

F(1080, "cuGraphicsMapResources", NEVER, out_of_scope=_GRAPHICS)
F(1081, "cuGraphicsUnmapResources", NEVER, out_of_scope=_GRAPHICS)
F(1082, "cuGraphicsUnregisterResource", NEVER, out_of_scope=_GRAPHICS)
F(1083, "cuGraphicsResourceSetMapFlags", NEVER, out_of_scope=_GRAPHICS)
F(1084, "cuGraphicsResourceSetMapFlags_v2", NEVER, out_of_scope=_GRAPHICS)
F(1085, "cuGraphicsResourceGetMappedPointer", NEVER, out_of_scope=_GRAPHICS)
F(1086, "cuGraphicsResourceGetMappedPointer_v2", NEVER, out_of_scope=_GRAPHICS)
F(1087, "cuGraphicsSubResourceGetMappedArray", NEVER, out_of_scope=_GRAPHICS)
F(1088, "cuGraphicsResourceGetMappedMipmappedArray", NEVER, out_of_scope=_GRAPHICS)
F(1089, "cuDeviceGetNvSciSyncAttributes", NEVER, out_of_scope="NvSci: synchronisation of embedded systems")
_GRAPHICS_CAPTURE = "graphics interoperability: the stream is captured for a graphics queue"
F(1090, "cuStreamBeginCaptureToCig", NEVER, out_of_scope=_GRAPHICS_CAPTURE)
F(1091, "cuStreamEndCaptureToCig", NEVER, out_of_scope=_GRAPHICS_CAPTURE)

# ---- objects of the application that a graph keeps alive: nothing that a launch sees ------------------------------

F(1092, "cuUserObjectCreate", NEVER)
F(1093, "cuUserObjectRetain", NEVER)
F(1094, "cuUserObjectRelease", NEVER)
F(1095, "cuMemGetLocationInfo", NEVER)
F(1096, "cuTensorMapSetAllocationClass", NEVER,
  unsupported="a tensor map that it changed is not recognised where its memory is moved")
