#include "support/progress.hpp"

namespace lathe {

Progress& no_progress() {
    static Progress instance;
    return instance;
}

} // namespace lathe
