#include "data/squad.hpp"

#include <utility>

#include "data/text_pieces.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/json.hpp"

namespace lathe {

namespace {

Error malformed(const std::string& what, const std::string& where) {
    return {ErrorCode::parse_error, "this is no SQuAD file: " + what, where,
            "give a JSON file as SQuAD's train-v1.1.json or dev-v2.0.json"};
}

Result<const Json*> list(const Json& object, const char* key, const std::string& where) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_array()) return malformed(std::string("no list \"") + key + "\"", where);
    return &*found;
}

Result<std::string> text(const Json& object, const char* key, const std::string& where) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (found == object.end() || !found->is_string()) return malformed(std::string("no text \"") + key + "\"", where);
    return found->get<std::string>();
}

Result<SquadQuestion> question_of(const Json& json, std::size_t context, const std::string& where, bool& version2) {
    SquadQuestion question;
    question.context = context;
    LATHE_TRY(question.id, text(json, "id", where));
    const std::string at = where + ", question " + question.id;
    LATHE_TRY(question.text, text(json, "question", at));
    if (json.contains("is_impossible")) version2 = true;
    if (!json.contains("answers")) return question;
    LATHE_TRY(const Json* answers, list(json, "answers", at));
    for (const Json& answer : *answers) {
        LATHE_TRY(std::string words, text(answer, "text", at + ", answers"));
        question.answers.push_back(std::move(words));
    }
    return question;
}

} // namespace

Result<SquadData> load_squad(const std::filesystem::path& path) {
    LATHE_TRY(const std::string content, read_text_file(path));
    if (const auto at = first_not_utf8(content)) return not_utf8(content, *at, path.string());
    LATHE_TRY(const Json json, parse_json(content, path.string()));
    SquadData data;
    LATHE_TRY(data.digest, hash_file(path));
    if (!json.is_object()) return malformed("no object", path.string());
    LATHE_TRY(const Json* articles, list(json, "data", path.string()));
    for (std::size_t a = 0; a < articles->size(); ++a) {
        const std::string where = path.string() + ", data[" + std::to_string(a) + "]";
        if (!(*articles)[a].is_object()) return malformed("no object", where);
        LATHE_TRY(const Json* paragraphs, list((*articles)[a], "paragraphs", where));
        for (const Json& paragraph : *paragraphs) {
            LATHE_TRY(std::string context, text(paragraph, "context", where));
            LATHE_TRY(const Json* questions, list(paragraph, "qas", where));
            data.contexts.push_back(std::move(context));
            for (const Json& each : *questions) {
                LATHE_TRY(SquadQuestion question, question_of(each, data.contexts.size() - 1, where, data.version2));
                data.questions.push_back(std::move(question));
            }
        }
    }
    if (data.questions.empty()) return malformed("no questions", path.string());
    return data;
}

} // namespace lathe
