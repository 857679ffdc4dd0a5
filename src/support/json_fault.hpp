#pragma once

#include <string>

#include "support/json.hpp"

namespace lathe {

/// What is wrong with a document, for who wrote it: without the tag that the JSON library puts before its messages, and
/// in terms of the document, not of the library's functions.
std::string json_fault(const Json::exception& failure);

} // namespace lathe
