#pragma once
// The table of plans that the kernel tests run, gathered from one file a family of operations.

#include <algorithm>
#include <cctype>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plans.hpp"

namespace lathe::cuda::test {

struct Case {
    std::string name;
    std::function<TestPlan()> make;
    bool interpret = true; ///< false: too much work for plain loops on the CPU
};

/// GoogleTest names a parameter by this.
inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// Cases in order; their names are made fit for GoogleTest.
class Cases {
public:
    /// One more.
    void operator()(std::string name, std::function<TestPlan()> make, bool interpret = true) {
        std::ranges::replace_if(
            name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
        all_.push_back({std::move(name), std::move(make), interpret});
    }
    std::vector<Case> take() { return std::move(all_); }

private:
    std::vector<Case> all_;
};

inline std::string type_name(ElementType type) { return to_string(type); }

/// Types that convolutions and products are tested in.
struct Types {
    std::string name;
    ElementType type, out;
    bool tf32;
};
inline const std::vector<Types>& product_types() {
    static const std::vector<Types> types{{"f16", ElementType::f16, ElementType::f16, false},
                                          {"s8", ElementType::s8, ElementType::s8, false},
                                          {"bf16", ElementType::bf16, ElementType::bf16, false},
                                          {"f32", ElementType::f32, ElementType::f32, false},
                                          {"tf32", ElementType::f32, ElementType::f32, true}};
    return types;
}

enum class Tail {
    none,
    bias,
    bias_relu,
    residual,
    residual_relu,
    residual_s8_relu,
    clip,
    silu,
    gelu,
    leaky,
    hard_swish,
    sigmoid,
    hard_sigmoid,
    silu_residual, ///< added behind the activation
    relu_residual
};
std::string_view name_of(Tail tail);

/// The epilogue of `channels` results y, sums of `terms` products; adds the residual to `inputs`.
Epilogue epilogue_of(PlanBuilder& b, Tail tail, ElementType compute, ValueId y, std::int64_t channels,
                     std::int64_t terms, std::vector<ValueId>& inputs);

void add_convolution_cases(Cases& add);
void add_window_cases(Cases& add);
void add_product_cases(Cases& add);
void add_chain_cases(Cases& add);
void add_other_cases(Cases& add);

/// All cases.
inline std::vector<Case> table() {
    Cases cases;
    add_convolution_cases(cases);
    add_window_cases(cases);
    add_product_cases(cases);
    add_chain_cases(cases);
    add_other_cases(cases);
    return cases.take();
}

} // namespace lathe::cuda::test
