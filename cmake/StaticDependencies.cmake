# The same libraries as archives, for the command that is one file. The compile flags stay those of the
# shared ones, so that both builds share objects in the compiler cache; only what is linked differs.

# Debian's config files name the shared libraries; the archives lie beside them.
function(_everstep_use_archive target)
  get_target_property(shared ${target} IMPORTED_LOCATION_NONE)
  if(NOT shared)
    return()
  endif()
  string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${shared}")
  if(NOT EXISTS ${archive})
    message(FATAL_ERROR "${target}: there is no ${archive}; run scripts/setup.sh")
  endif()
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_NONE ${archive} IMPORTED_SONAME_NONE "")
endfunction()

# A target and all that it is linked with; a config file's targets are those of find_package here.
function(_everstep_use_archives)
  set(left ${ARGN})
  set(seen "")
  while(left)
    list(POP_FRONT left target)
    if(target IN_LIST seen OR NOT TARGET ${target})
      continue()
    endif()
    list(APPEND seen ${target})
    _everstep_use_archive(${target})
    get_target_property(next ${target} INTERFACE_LINK_LIBRARIES)
    if(next)
      list(APPEND left ${next})
    endif()
  endwhile()
endfunction()

find_library(EVERSTEP_SNAPPY snappy REQUIRED)
set_target_properties(leveldb::leveldb PROPERTIES INTERFACE_LINK_LIBRARIES "${EVERSTEP_SNAPPY}")
_everstep_use_archives(gRPC::grpc++ leveldb::leveldb absl::status absl::statusor absl::span absl::strings
                       absl::function_ref)

# Of these Debian has no archive. CRC-32C is then our own (io/crc32c_plain.cc); fmt and spdlog are
# their headers, compiled once.
add_library(ev_isal INTERFACE IMPORTED GLOBAL)
add_library(ev_fmt STATIC ${CMAKE_SOURCE_DIR}/cmake/static/fmt.cc)
target_compile_definitions(ev_fmt PUBLIC FMT_SHARED)
add_library(fmt::fmt ALIAS ev_fmt)
add_library(ev_spdlog STATIC ${CMAKE_SOURCE_DIR}/cmake/static/spdlog.cc)
target_compile_definitions(ev_spdlog PUBLIC SPDLOG_SHARED_LIB SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
target_link_libraries(ev_spdlog PUBLIC ev_fmt Threads::Threads)
add_library(spdlog::spdlog ALIAS ev_spdlog)
