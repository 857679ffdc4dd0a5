#include "runtime/tensorrt_plan.hpp"

namespace lathe {

Result<TensorRtFormAndPlan> tensorrt_form_in(const EngineContents& contents) {
    LATHE_TRY(const auto section, contents.section("compiled"));
    return read_tensorrt_form(section);
}

} // namespace lathe
