#include "lathe/result.hpp"

namespace lathe {

const char* to_string(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid_argument: return "invalid_argument";
        case ErrorCode::not_found: return "not_found";
        case ErrorCode::parse_error: return "parse_error";
        case ErrorCode::unsupported: return "unsupported";
        case ErrorCode::corrupt: return "corrupt";
        case ErrorCode::mismatch: return "mismatch";
        case ErrorCode::out_of_range: return "out_of_range";
        case ErrorCode::io: return "io";
        case ErrorCode::out_of_memory: return "out_of_memory";
        case ErrorCode::verification_failed: return "verification_failed";
        case ErrorCode::cancelled: return "cancelled";
        case ErrorCode::internal: return "internal";
    }
    return "internal";
}

std::string Error::describe() const {
    std::string text = message;
    if (!where.empty()) text += " (" + where + ")";
    if (!hint.empty()) text += ": " + hint;
    return text;
}

Error Error::in(std::string place) && {
    if (where == place) return std::move(*this);
    where = where.empty() ? std::move(place) : std::move(place) + ", " + where;
    return std::move(*this);
}

} // namespace lathe
