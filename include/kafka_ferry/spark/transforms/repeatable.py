"""What rules may use of Spark SQL: what is known to give the same for the same record, whenever it is evaluated.

Spark's own mark, ``deterministic``, is about one query: it does not know of what differs from run to run, such as
a random initialization vector, or today's date in a text that is only a time.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from kafka_ferry.spark.transforms.trees import Node, Tree, type_of

_FUNCTIONS: Final = """
abs acos acosh add_months aes_decrypt aes_encrypt aggregate and array array_append array_compact array_contains
array_distinct array_except array_insert array_intersect array_join array_max array_min array_position
array_prepend array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin
asinh assert_true atan atan2 atanh base64 between bigint bin binary bit_count bit_get bit_length
bitmap_bit_position bitmap_bucket_number bitmap_count boolean bround btrim cardinality case cast cbrt ceil
ceiling char char_length character_length chr coalesce collate collation concat concat_ws contains conv
convert_timezone cos cosh cot crc32 csc date date_add date_diff date_format date_from_unix_date date_part
date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decimal decode degrees
div double e element_at elt encode endswith equal_null exists exp expm1 extract factorial filter find_in_set
flatten float floor forall format_number format_string from_csv from_json from_unixtime from_utc_timestamp
from_xml get get_json_object getbit greatest hash hex hour hypot if ifnull ilike in initcap instr int
is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull json_array_length json_object_keys
last_day lcase least left len length levenshtein like ln locate log log10 log1p log2 lower lpad ltrim luhn_check
make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz
make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries map_filter map_from_arrays
map_from_entries map_keys map_values map_zip_with mask md5 minute mod month monthname months_between
named_struct nanvl negative next_day not nullif nullifzero nvl nvl2 octet_length or overlay parse_url
pi pmod position positive pow power printf quarter quote radians raise_error reduce regexp regexp_count
regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse
right rint rlike round rpad rtrim schema_of_csv schema_of_json schema_of_variant_agg
schema_of_xml sec second sentences sequence sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum
sin sinh size slice smallint sort_array soundex space split split_part sqrt st_asbinary
st_setsrid st_srid startswith str_to_map string struct substr substring substring_index tan tanh
time time_bucket time_diff time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis
time_to_seconds time_trunc timestamp timestamp_micros timestamp_millis timestamp_seconds tinyint to_binary
to_char to_csv to_date to_json to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz
to_unix_timestamp to_utc_timestamp to_varchar to_variant_object transform transform_keys transform_values
translate trim trunc try_add try_aes_decrypt try_divide try_element_at try_make_interval try_make_timestamp
try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_parse_url try_subtract
try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8
try_variant_get typeof ucase unbase64 unhex unix_date unix_micros unix_millis unix_seconds unix_timestamp upper
url_decode url_encode validate_utf8 variant_get vector_avg vector_cosine_similarity vector_inner_product
vector_l2_distance vector_norm vector_normalize vector_sum weekday weekofyear when width_bucket xxhash64 year
zeroifnull zip_with
"""
REPEATABLE: Final = frozenset(_FUNCTIONS.split())
"""The functions over one record that give the same every time; a test compares them with Spark's catalog.

Those of XPath fetch the DTD that a record names, from any address. Those of sketches take the memory that a sketch asks
for: of a record with some bytes, more than there is, which no rule survives. to_xml() writes what it has begun for a
record, and could not end, before the next record's: a character that XML does not have is enough. What is
nested deep in some KB of JSON or of a geometry overflows Java's stack in schema_of_variant(), st_geomfromwkb() and
st_geogfromwkb(), or where the variant of parse_json() becomes text, which ends the executor, or the driver, with all
of its tasks.
"""

# By function, the place of the argument with options.
_XML_OPTIONS: Final = {"from_xml": 2, "schema_of_xml": 1}
_XML_SCHEMA: Final = "rowvalidationxsdpath"
# By function, the place of the argument with a schema or a type; and what may give one besides a literal.
_SCHEMAS: Final = {
    "from_json": 1,
    "from_csv": 1,
    "from_xml": 1,
    "variant_get": 2,
    "try_variant_get": 2,
}
_SCHEMAS_OF: Final = ("schema_of_json", "schema_of_csv", "schema_of_xml")
# Its argument with the path; two of these in a row have Spark go as deep into arrays as a record nests them.
_PATHS: Final = {"get_json_object": 1}
_FLATTENS: Final = "[*][*]"
_JSON_BEGINS: Final = ("{", '"', "[")
_QUALIFIERS: Final = (["builtin"], ["system", "builtin"])
_ENCRYPT: Final = "aes_encrypt"
_MODE, _VECTOR = 2, 4
# A date, or a moment with one: to a time alone, Spark adds today's date, and it has words such as 'now' for days. What
# is written by escapes or in several pieces, and what begins with characters that Spark skips, may be one of these.
_FIXED: Final = r"\s*(?:[-+]?\d{4}|epoch\b)"
_FIXED_TEXT: Final = re.compile(_FIXED, re.IGNORECASE)
_FIXED_LITERAL: Final = re.compile(rf"""\w+\s*r?(['"]){_FIXED}[^'"\\]*\1""", re.IGNORECASE)
_INSTANTS: Final = ("date", "timestamp", "timestamp_ntz")
_STRUCT_READERS: Final = ("JsonToStructs", "CsvToStructs", "XmlToStructs")
_TEXT_READERS: Final = (*_STRUCT_READERS, "VariantGet")
_TIMESTAMP: Final = '"timestamp"'
_TEXTS: Final = ("string", "char", "variant")
# What builds a map keeps the entries of a record for which that fails, and adds them to the next record's, or breaks
# off the task there.
_MAP_BUILDERS: Final = frozenset(
    {"CreateMap", "MapConcat", "MapFromArrays", "MapFromEntries", "StringToMap", "TransformKeys"}
)
# Of these, Java's text may be a place in memory.
_WITHOUT_TEXT: Final = ("binary", "array<", "map<", "struct<")
_MOMENT: Final = re.compile(r"%[^%a-zA-Z]*[tT]")
_HOW_TO_READ: Final = "use to_timestamp(text, 'yyyy-MM-dd HH:mm:ss')"
_TODAY: Final = "takes today's date for a text that is only a time"
# Of a text that is the same for all records, Spark's optimizer makes these types too by the words for days.
_DAYS: Final = ("date", "timestamp_ntz")


def names_schema_file(parsed: Tree) -> bool:
    """Whether an expression may name a schema of XML by a file's path or an address, which Spark would read.

    Spark's analyzer evaluates what is constant, and so reads that already: this is for before.
    """
    for node in parsed.nodes:
        place = _XML_OPTIONS.get(node.names[-1].lower())
        if node.kind == "UnresolvedFunction" and place is not None:
            below = (*node.path, place)
            options = [option for option in parsed.nodes if option.path[: len(below)] == below]
            # What is computed may be any option.
            if any(option.kind != "Literal" for option in options[1:]) or any(
                str(option.fields.get("value")).lower() == _XML_SCHEMA for option in options
            ):
                return True
    return False


def names_class(parsed: Tree) -> bool:
    """Whether an expression may name a type by its class, which Spark's analyzer would load, or PySpark import.

    Where a schema is wanted, Spark takes its own JSON too, which has types that a class defines.
    """
    for node in parsed.nodes:
        place = _SCHEMAS.get(node.names[-1].lower())
        if node.kind != "UnresolvedFunction" or place is None:
            continue
        schema = parsed.child(node, place)
        if schema is None or (
            schema.kind == "UnresolvedFunction" and schema.names[-1].lower() in _SCHEMAS_OF
        ):
            continue
        text = str(schema.fields.get("value")).strip()
        if schema.kind != "Literal" or text.startswith(_JSON_BEGINS):
            return True
    return False


def flattens_arrays(parsed: Tree) -> bool:
    """Whether an expression may have a path of JSON that goes as deep as arrays are nested, and overflows the stack."""
    for node in parsed.nodes:
        place = _PATHS.get(node.names[-1].lower())
        if node.kind == "UnresolvedFunction" and place is not None:
            path = parsed.child(node, place)
            # Spark skips white space in it; what is computed may be any path.
            text = "".join(str(path.fields.get("value")).split()) if path else ""
            if path and (path.kind != "Literal" or _FLATTENS in text):
                return True
    return False


def reads_variant(tree: Tree) -> str:
    """Where an expression makes a variant of text, which may overflow Java's stack; "" for nowhere."""
    for node in tree.nodes:
        if node.kind in _STRUCT_READERS and '"variant"' in json.dumps(dict(node.fields)):
            return "reads a variant out of text, which ends Spark where it is nested deep: name fields and their types"
    return ""


def not_repeatable(text: str, parsed: Tree, resolved: Tree) -> str:
    """Why an expression may give something else the next time; "" if it is known not to.

    Args:
        text: the expression.
        parsed: it as Spark parses it.
        resolved: it with its functions and columns, and without expressions that others replace.
    """
    return (
        _by_literal(text, parsed)
        or _by_cast(resolved)
        or _by_predecessor(resolved)
        or _by_java_text(resolved)
    )


def unknown_function(tree: Tree) -> str:
    """Which function a parsed expression uses that may give something else the next time; "" for none.

    Or that may read a file or an address, which Spark's analyzer would do already: this is for before.
    """
    for node in tree.nodes:
        if node.kind != "UnresolvedFunction":
            continue
        *qualifier, name = (part.lower() for part in node.names)
        if name not in REPEATABLE or (qualifier and qualifier not in _QUALIFIERS):
            shown = ".".join((*qualifier, name))
            return (
                f"uses {shown}, which is not among the functions over one record that are known to give the same every "
                "time"
            )
        if name == _ENCRYPT and not _has_vector(tree, node):
            return f"uses {_ENCRYPT} with a random initialization vector: give it one, or the mode 'ECB'"
    return ""


def _has_vector(tree: Tree, call: Node) -> bool:
    mode, vector = tree.child(call, _MODE), tree.child(call, _VECTOR)
    if mode and str(mode.fields.get("value")).upper() == "ECB":
        return True
    return bool(vector and vector.fields.get("value", "given"))


def _by_literal(text: str, tree: Tree) -> str:
    """Spark has replaced a literal's words by what they mean now: what it was only its place in the text says."""
    for node in tree.nodes:
        if node.kind == "Literal" and node.fields.get("dataType") in _INSTANTS:
            origin = tree.at(node).origin()
            written = text[origin.startIndex().get() : origin.stopIndex().get() + 1]
            if not _FIXED_LITERAL.fullmatch(written):
                return f"may depend on the time: {written}"
    return ""


def _by_cast(tree: Tree) -> str:
    for node in tree.nodes:
        if node.kind in _TEXT_READERS and _TIMESTAMP in json.dumps(node.fields):
            return f"reads a timestamp, which {_TODAY}: read it as text, and {_HOW_TO_READ}"
        if node.kind == "Cast" and _TIMESTAMP in json.dumps(node.fields["dataType"]):
            child = tree.child(node, 0)
            assert child is not None
            if child.kind == "Literal" and _FIXED_TEXT.match(str(child.fields.get("value"))):
                continue
            type_ = type_of(tree.at(child))
            if any(text_type in type_ for text_type in _TEXTS):
                return f"makes a timestamp of text, which {_TODAY}: {_HOW_TO_READ}"
        if node.kind == "Cast" and node.fields["dataType"] in _DAYS and _may_be_word(tree, node):
            return (
                f"makes a {node.fields['dataType']} of a text that may be a word for a day, such as 'today': write a "
                "date in digits"
            )
    return ""


def _may_be_word(tree: Tree, cast: Node) -> bool:
    """Whether a cast's text is one and the same for all records, and not known to begin with a date in digits."""
    text = tree.child(cast, 0)
    assert text is not None
    if text.kind == "Literal" and _FIXED_TEXT.match(str(text.fields.get("value"))):
        return False
    child = tree.at(text)
    return bool(child.foldable()) and type_of(child).startswith(_TEXTS)


def _by_predecessor(tree: Tree) -> str:
    for node in tree.nodes:
        # One entry, such as the text of raise_error(), is there as a whole or not at all.
        is_single = node.kind == "CreateMap" and tree.child(node, 2) is None
        if node.kind in _MAP_BUILDERS and not is_single and not tree.at(node).foldable():
            return (
                "builds a map, which may get entries of the record before: use struct(), or an array of structs and "
                "filter()"
            )
        if node.kind == "FormatNumber" and not tree.at(node).right().foldable():
            return "has format_number() take its format from a record, which may be that of the record before"
    return ""


def _by_java_text(tree: Tree) -> str:
    for node in tree.nodes:
        if node.kind != "FormatString":
            continue
        format_, *arguments = _children(tree, node)
        if any(type_of(it).startswith(_WITHOUT_TEXT) for it in arguments):
            return (
                "has format_string() write bytes, an array, a map or a struct, for which Java may write its place in "
                "memory: use cast(value as string), hex() or to_json()"
            )
        # A number that is taken for a moment is written in the time zone of the machine.
        written = format_.eval(None) if format_.foldable() else None
        if not format_.foldable() or _MOMENT.search(str(written).replace("%%", "")):
            return (
                "has format_string() write a moment, or take its format from a record, which may do that: it is in the "
                "time zone of the machine. Use date_format()"
            )
    return ""


def _children(tree: Tree, node: Node) -> list[Any]:
    children = tree.at(node).children()
    return [children.apply(place) for place in range(children.size())]
