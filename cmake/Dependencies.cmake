# Libraries from outside, found once, given names that rooms.toml uses.
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(absl REQUIRED)
# CONFIG first would miss Debian's protobuf, which ships no config file.
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(leveldb CONFIG REQUIRED)
# A shared library brings what it needs itself; Debian's config names -lsnappy, of which only the
# runtime package is a dependency.
set_target_properties(leveldb::leveldb PROPERTIES INTERFACE_LINK_LIBRARIES "")
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(GTest REQUIRED)

function(_everstep_plain_library target library header)
  find_library(${target}_LIBRARY ${library} REQUIRED)
  find_path(${target}_INCLUDE ${header} REQUIRED)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(${target} INTERFACE ${${target}_LIBRARY})
endfunction()
_everstep_plain_library(ev_isal isal isa-l.h)
_everstep_plain_library(ev_xxhash xxhash xxhash.h)
_everstep_plain_library(ev_dw dw elfutils/libdwfl.h)
# Of all programs that link env only supervisors look into others' stacks.
set_target_properties(ev_dw PROPERTIES INTERFACE_LINK_LIBRARIES
  "-Wl,--push-state,--as-needed;${ev_dw_LIBRARY};-Wl,--pop-state")

if(EVERSTEP_TORCH)
  # TorchConfig sets flags and prints a lot; only its targets are wanted.
  find_package(Torch REQUIRED)
  add_library(ev_torch INTERFACE IMPORTED GLOBAL)
  target_link_libraries(ev_torch INTERFACE ${TORCH_LIBRARIES})
  target_include_directories(ev_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
endif()
