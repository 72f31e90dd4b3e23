# What `cmake --install` puts where, and what `cpack` makes of it: a tarball and a .deb. They carry the
# command and the Python file that programs under it may use, not the library for C++ learners.
include(GNUInstallDirs)
install(TARGETS everstep RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES python/everstep_heartbeat.py DESTINATION ${CMAKE_INSTALL_DATADIR}/everstep/python)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

string(TOLOWER ${CMAKE_SYSTEM_NAME} system)
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME everstep)
set(CPACK_PACKAGE_VENDOR Everstep)
set(CPACK_PACKAGE_CONTACT "Everstep maintainers <maintainers@everstep.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "training on many machines that does not stop")
set(CPACK_PACKAGE_DESCRIPTION
    "Starts the processes of a training job, watches them from outside, finds hangs, and starts them again
from the newest checkpoint. Runs unmodified TensorFlow, Keras and PyTorch programs.")
set(CPACK_PACKAGE_FILE_NAME everstep-${PROJECT_VERSION}-${system}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
if(EVERSTEP_STATIC)
  # One file that needs nothing: it must install where the library packages have other names.
  set(CPACK_PACKAGE_FILE_NAME ${CPACK_PACKAGE_FILE_NAME}-static)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS OFF)
else()
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
include(CPack)
