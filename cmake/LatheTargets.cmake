# One CMake target a folder under src/, so that an include upward in the order of design.md does not link.

add_library(lathe_flags INTERFACE)
target_compile_features(lathe_flags INTERFACE cxx_std_20)
# GCC 12 warns falsely of overlap in std::string operator+ (GCC bug 105651).
target_compile_options(lathe_flags INTERFACE -Wall -Wextra -Wconversion -Wno-psabi
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(LATHE_WERROR)
  target_compile_options(lathe_flags INTERFACE -Werror)
endif()
if(LATHE_SANITIZE)
  # vptr checks need type information that third-party libraries were built without.
  target_compile_options(lathe_flags INTERFACE -fsanitize=address,undefined -fno-sanitize=vptr
                                               -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(lathe_flags INTERFACE -fsanitize=address,undefined)
endif()

# Headers are read and templates compiled once for eight files. What includes too little is told by builds without it,
# names that meet by builds with it.
if(LATHE_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
endif()

# Code that waits for files, people and compilers, not for arithmetic: -O1 compiles a third faster than Release's -O3.
add_library(lathe_cold INTERFACE)
if(NOT LATHE_SANITIZE)
  target_compile_options(lathe_cold INTERFACE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
endif()

# Arithmetic whose tests take minutes where the sanitizers' build is not optimised.
add_library(lathe_hot INTERFACE)
if(LATHE_SANITIZE)
  target_compile_options(lathe_hot INTERFACE -O1)
endif()

# lathe_library(NAME SOURCES … PUBLIC targets… PRIVATE targets…): static library lathe_NAME; COLD, HOT: as lathe_cold and
# lathe_hot say.
function(lathe_library name)
  cmake_parse_arguments(ARG "COLD;HOT" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(lathe_${name} STATIC ${ARG_SOURCES})
  target_include_directories(lathe_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(lathe_${name} PUBLIC ${ARG_PUBLIC} PRIVATE lathe_flags ${ARG_PRIVATE})
  if(ARG_COLD)
    target_link_libraries(lathe_${name} PRIVATE lathe_cold)
  endif()
  if(ARG_HOT)
    target_link_libraries(lathe_${name} PRIVATE lathe_hot)
  endif()
  set_target_properties(lathe_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                                 VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# lathe_test(NAME SOURCES … LINK targets…): one GoogleTest binary test_NAME; every case becomes a ctest test; ALONE:
# nothing runs beside them; HOT: as lathe_hot says.
function(lathe_test name)
  cmake_parse_arguments(ARG "ALONE;HOT" "TIMEOUT" "SOURCES;LINK" ${ARGN})
  set(cost 0)
  if(ARG_TIMEOUT)
    set(cost 100) # begun before what is short
  else()
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE lathe_flags lathe_cold lathe_test_support ${ARG_LINK}
                                             GTest::gtest_main GTest::gmock)
  if(ARG_HOT)
    target_link_libraries(test_${name} PRIVATE lathe_hot)
  endif()
  gtest_discover_tests(test_${name} TEST_PREFIX ${name}. NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} RUN_SERIAL ${ARG_ALONE} COST ${cost})
endfunction()
