#pragma once

#include "lathe/progress.hpp"

namespace lathe {

/// The silent one, for callers that were given none.
Progress& no_progress();

} // namespace lathe
