include(${CMAKE_CURRENT_LIST_DIR}/lathe-targets.cmake)
