# cmake -DFILES=a|b|… -DOUTPUT=header.hpp -P LatheDigest.cmake: one digest of the files' contents, as a C++ constant.
cmake_minimum_required(VERSION 3.25) # policies, where this runs by itself
string(REPLACE "|" ";" FILES "${FILES}")
list(SORT FILES)
set(all "")
foreach(file IN LISTS FILES)
  file(SHA256 "${file}" digest)
  string(APPEND all ${digest})
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 12 digest)
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "inline constexpr const char* lathe_kernels_digest = \"@digest@\";\n" @ONLY)
