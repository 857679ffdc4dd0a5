#pragma once

namespace lathe {

// Classes of Unicode's characters, as Python's str has them.

/// A letter or number of any kind (general categories L and N): str.isalnum(), and with '_' what \w matches.
bool is_unicode_alphanumeric(char32_t code);
/// A letter that has a case (Cased), but for those that are Case_Ignorable.
bool is_unicode_cased(char32_t code);
/// What stands inside words without a case of its own (Case_Ignorable): marks, apostrophes, soft hyphens.
bool is_case_ignorable(char32_t code);

} // namespace lathe
