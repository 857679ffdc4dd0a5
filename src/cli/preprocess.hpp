#pragma once

#include <string>

namespace lathe::cli {

/// What --preprocess takes, wherever a model or engine reads pictures.
std::string preprocess_help();

} // namespace lathe::cli
