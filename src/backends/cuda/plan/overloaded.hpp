#pragma once

namespace lathe::cuda {

/// One visitor for std::visit out of several lambdas.
template <class... Visitors>
struct Overloaded : Visitors... {
    using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>; // clang 14 does not deduce it for aggregates

} // namespace lathe::cuda
