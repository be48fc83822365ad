# Sets REPLAY_CUDA_INCLUDE_DIR, the folder that holds cuda.h and cudaTypedefs.h, and REPLAY_CUDA12_INCLUDE_DIR and
# REPLAY_CUDA13_INCLUDE_DIR, those with cuda_runtime_api.h of CUDA 12.9 and 13; these two may stay empty.
#
# Order: the value given with -D; the nvidia-cuda-runtime wheel of the Python that drives the build (in an isolated
# pip build it is always there and always the same, whatever toolkit the machine has); CUDA_HOME or CUDA_PATH;
# an installed toolkit. Only headers are used: nothing of CUDA is linked.
set(REPLAY_CUDA_INCLUDE_DIR "" CACHE PATH "Folder with cuda.h; empty: find it")

set(oldest_cuda_version 12040)
set(places "")

if(REPLAY_CUDA_INCLUDE_DIR AND NOT EXISTS "${REPLAY_CUDA_INCLUDE_DIR}/cuda.h")
  # A build folder kept from an isolated build remembers a wheel that is gone by now.
  message(STATUS "No cuda.h in ${REPLAY_CUDA_INCLUDE_DIR} any more; looking again")
  set(REPLAY_CUDA_INCLUDE_DIR "")
endif()

  find_package(Python3 COMPONENTS Interpreter QUIET)
  if(Python3_Interpreter_FOUND)
    # `nvidia` is a namespace package: each of its locations may hold cu13/ (CUDA 13) or cuda_runtime/ (CUDA 12).
    execute_process(
      COMMAND "${Python3_EXECUTABLE}" -c "
import importlib.util, pathlib
spec = importlib.util.find_spec('nvidia')
for location in (spec.submodule_search_locations or []) if spec else []:
    for include in sorted(pathlib.Path(location).glob('cu[0-9]*/include'), reverse=True):
        print(include.as_posix())
    print((pathlib.Path(location) / 'cuda_runtime' / 'include').as_posix())
"
      OUTPUT_VARIABLE wheel_folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    string(REPLACE "\n" ";" wheel_folders "${wheel_folders}")
    list(APPEND places ${wheel_folders})
  endif()
  foreach(variable CUDA_HOME CUDA_PATH CUDA_ROOT)
    if(DEFINED ENV{${variable}})
      list(APPEND places "$ENV{${variable}}/include" "$ENV{${variable}}/targets/${CMAKE_SYSTEM_PROCESSOR}-linux/include")
    endif()
  endforeach()
  find_program(REPLAY_NVCC nvcc)
  if(REPLAY_NVCC)
    get_filename_component(nvcc_folder "${REPLAY_NVCC}" REALPATH)
    get_filename_component(nvcc_folder "${nvcc_folder}" DIRECTORY)
    list(APPEND places "${nvcc_folder}/../include")
  endif()
  file(GLOB installed_toolkits LIST_DIRECTORIES true /usr/local/cuda /usr/local/cuda-1[2-9]* /opt/cuda)
  list(SORT installed_toolkits COMPARE NATURAL ORDER DESCENDING)
  foreach(toolkit ${installed_toolkits})
    list(APPEND places "${toolkit}/include")
  endforeach()
  list(APPEND places /usr/include)

set(found_places ${places})
if(REPLAY_CUDA_INCLUDE_DIR)
  set(places "${REPLAY_CUDA_INCLUDE_DIR}")
endif()

# The CUDA_VERSION of a folder's headers; empty when it does not hold them.
function(replay_headers_version place result)
  set(version "")
  if(EXISTS "${place}/cuda.h" AND EXISTS "${place}/cudaTypedefs.h")
    file(STRINGS "${place}/cuda.h" version_line REGEX "^#define CUDA_VERSION [0-9]+")
    string(REGEX MATCH "[0-9]+$" version "${version_line}")
  endif()
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

set(REPLAY_CUDA_INCLUDE_DIR "")
set(looked_at "")
foreach(place ${places})
  replay_headers_version("${place}" version)
  if(NOT version)
    continue()
  endif()
  if(NOT version LESS oldest_cuda_version)
    get_filename_component(REPLAY_CUDA_INCLUDE_DIR "${place}" REALPATH)
    set(REPLAY_CUDA_VERSION "${version}")
    break()
  endif()
  list(APPEND looked_at "${place} (CUDA_VERSION ${version})")
endforeach()

if(NOT REPLAY_CUDA_INCLUDE_DIR)
  if(looked_at)
    set(looked_at " Too old: ${looked_at}.")
  endif()
  message(FATAL_ERROR "replay needs cuda.h of CUDA 12.4 or later.${looked_at} Run `pip install 'nvidia-cuda-runtime>=13'`, "
                      "or set CUDA_HOME to a toolkit, or pass -DREPLAY_CUDA_INCLUDE_DIR=FOLDER.")
endif()
message(STATUS "CUDA headers ${REPLAY_CUDA_VERSION}: ${REPLAY_CUDA_INCLUDE_DIR}")

# The runtime libraries are compiled against the headers of their own version: structures differ. 12.9 is the last of 12.
set(REPLAY_CUDA12_INCLUDE_DIR "" CACHE PATH "Folder with cuda_runtime_api.h of CUDA 12.9; empty: find it")
set(REPLAY_CUDA13_INCLUDE_DIR "" CACHE PATH "Folder with cuda_runtime_api.h of CUDA 13; empty: find it")
function(replay_runtime_headers major from to)
  set(found "")
  foreach(place "${REPLAY_CUDA${major}_INCLUDE_DIR}" "${REPLAY_CUDA_INCLUDE_DIR}" ${found_places})
    replay_headers_version("${place}" version)
    if(version AND NOT version LESS from AND version LESS to AND EXISTS "${place}/cuda_runtime_api.h")
      get_filename_component(found "${place}" REALPATH)
      message(STATUS "CUDA ${major} runtime headers ${version}: ${found}")
      break()
    endif()
  endforeach()
  set(REPLAY_CUDA${major}_INCLUDE_DIR "${found}" PARENT_SCOPE)
endfunction()
replay_runtime_headers(12 12090 13000)
replay_runtime_headers(13 13000 14000)
