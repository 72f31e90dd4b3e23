# Libraries from outside, found once, given names that rooms.toml uses.
if(EVERSTEP_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  set(OPENSSL_USE_STATIC_LIBS ON)
  set(Protobuf_USE_STATIC_LIBS ON)
endif()
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(absl REQUIRED)
# CONFIG first would miss Debian's protobuf, which ships no config file.
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)  # brings c-ares::cares
find_package(leveldb CONFIG REQUIRED)
# A shared library brings what it needs itself; Debian's config names -lsnappy, of which only the
# runtime package is a dependency.
set_target_properties(leveldb::leveldb PROPERTIES INTERFACE_LINK_LIBRARIES "")
if(NOT EVERSTEP_STATIC)
  find_package(fmt CONFIG REQUIRED)
  find_package(spdlog CONFIG REQUIRED)
endif()
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
if(NOT EVERSTEP_STATIC)
  find_package(GTest REQUIRED)
endif()

function(_everstep_plain_library target library header)
  find_library(${target}_LIBRARY ${library} REQUIRED)
  find_path(${target}_INCLUDE ${header} REQUIRED)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(${target} INTERFACE ${${target}_LIBRARY})
endfunction()
# Headers alone.
find_path(RAPIDJSON_INCLUDE rapidjson/reader.h REQUIRED)
add_library(ev_rapidjson INTERFACE IMPORTED GLOBAL)
target_include_directories(ev_rapidjson INTERFACE ${RAPIDJSON_INCLUDE})
if(EVERSTEP_STATIC)
  include(StaticDependencies)
else()
  _everstep_plain_library(ev_isal isal isa-l.h)
endif()
_everstep_plain_library(ev_xxhash xxhash xxhash.h)
_everstep_plain_library(ev_dw dw elfutils/libdwfl.h)
# Of all programs that link env only supervisors look into others' stacks.
if(EVERSTEP_STATIC)
  target_link_libraries(ev_dw INTERFACE elf z lzma bz2)
else()
  set_target_properties(ev_dw PROPERTIES INTERFACE_LINK_LIBRARIES
    "-Wl,--push-state,--as-needed;${ev_dw_LIBRARY};-Wl,--pop-state")
endif()

if(EVERSTEP_TORCH)
  # TorchConfig sets flags and prints a lot; only its targets are wanted.
  find_package(Torch REQUIRED)
  add_library(ev_torch INTERFACE IMPORTED GLOBAL)
  target_link_libraries(ev_torch INTERFACE ${TORCH_LIBRARIES})
  target_include_directories(ev_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
endif()
