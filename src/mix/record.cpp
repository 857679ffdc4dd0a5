#include "mix/record.hpp"

#include <optional>
#include <vector>

namespace lathe {

Result<bool> MixRecord::read(std::size_t layers) {
    LATHE_TRY(const std::optional<Json> kept, journal_.read());
    if (!kept) return false;
    const auto damaged = [&] {
        return Error{ErrorCode::corrupt, "the record of earlier work is damaged", journal_.file().string(),
                     "remove it, or begin anew with --force"};
    };
    try {
        state.damage = kept->at("damage").get<std::vector<double>>();
        state.gains = kept->at("gains").get<std::vector<double>>();
        state.seconds = kept->at("seconds").get<double>();
        saved_mix = kept->at("saved_mix").get<std::string>();
        saved_hash = kept->at("saved_hash").get<std::string>();
        for (const Json& trial : kept->at("trials")) {
            LATHE_TRY(Trial made, trial_from_json(trial));
            if (made.mix.int8.size() != layers) return damaged();
            state.trials.push_back(std::move(made));
        }
    } catch (const Json::exception&) {
        return damaged();
    }
    if (state.damage.size() != layers) return damaged();
    return true;
}

Result<void> MixRecord::keep() const {
    Json trials = Json::array();
    for (const Trial& trial : state.trials)
        trials.push_back(to_json(trial));
    return journal_.write({{"damage", state.damage},
                           {"gains", state.gains},
                           {"seconds", state.seconds},
                           {"saved_mix", saved_mix},
                           {"saved_hash", saved_hash},
                           {"trials", std::move(trials)}});
}

} // namespace lathe
