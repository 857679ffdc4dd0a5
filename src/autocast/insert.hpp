#pragma once

#include <cstddef>

#include "autocast/decide.hpp"
#include "graph/graph.hpp"

namespace lathe {

struct CastModel {
    Model model;
    std::size_t casts = 0;     ///< Cast nodes that were added
    std::size_t constants = 0; ///< constants that became 16 bits wide
};

/// Carries a plan out. A value keeps its name in FP32; its 16-bit form is called NAME_fp16 (or NAME_bf16), and a Cast
/// joins the two where both are needed:
///
///     %y = Conv(%x, %w)        %x_fp16 = Cast(%x) {to = 10}
///     %z = Exp(%y)             %y_fp16 = Conv(%x_fp16, %w_fp16)
///                         ->   %y = Cast(%y_fp16) {to = 1}
///                              %z = Exp(%y)                       # stays FP32
///
/// Inputs and outputs of the model keep name and type unless options.io_type asks for another; then it is the 16-bit
/// form that has the name. Errors: unsupported, where the body of a control-flow node reads an input whose type
/// changes; out_of_range, where an output's values do not fit the type asked for.
Result<CastModel> insert_casts(const Model& model, const AutocastPlan& plan, const AutocastOptions& options);

} // namespace lathe
