#pragma once

#include <cstddef>
#include <string_view>

#include "lathe/result.hpp"

namespace lathe {

/// Long work reports here and asks here whether to stop. The base class is silent and never stops; derive from it to
/// show how far the work is, or to end it.
class Progress {
public:
    virtual ~Progress() = default;

    /// A stage begins; `total` steps are expected, 0 if not known.
    virtual void begin(std::string_view /*stage*/, std::size_t /*total*/) {}
    virtual void advance(std::size_t /*steps*/ = 1) {}
    virtual void end() {}
    virtual bool cancelled() const { return false; }

    /// An ErrorCode::cancelled failure once the user asked to stop; loops call it between steps.
    Result<void> check() const {
        if (cancelled()) return Error{ErrorCode::cancelled, "interrupted", "", "no file is half written"};
        return {};
    }
};

} // namespace lathe
