#pragma once

#include "cli/context.hpp"

namespace lathe::cli {

void add_demo(Commands& commands);

} // namespace lathe::cli
