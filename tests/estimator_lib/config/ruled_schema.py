"""A small schema whose fields have rules, for tests of what reads them."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from protos import rules_pb2

_FILE = """
name: "tests/ruled.proto" package: "vision_model_fns.protos" syntax: "proto2"
dependency: "protos/rules.proto"
message_type {
  name: "RuledConfig"
  options {
    [vision_model_fns.protos.conflict] {
      when: ["sequences", "not net.wide", "net.size > batch"]
      at: "net.size" problem: "{net.size}; expected at most {batch}, batch." }
    [vision_model_fns.protos.conflict] {
      when: ["sequences", "net.part.layer: dense"]
      of: ["nets.wide", "nets.odd"] ignored: "without a {net.part.layer} part" }
    [vision_model_fns.protos.conflict] {
      when: "sequences" of: "nets.deep" warning: "{sequences} sequences." }
    [vision_model_fns.protos.conflict] {
      when: ["sequences", "net.part.layer: sparse"] at: "net.part.layer" problem: "too thin." }
  }
  field { name: "net" number: 1 type: TYPE_MESSAGE label: LABEL_OPTIONAL
          type_name: ".vision_model_fns.protos.RuledNet" }
  field { name: "nets" number: 2 type: TYPE_MESSAGE label: LABEL_REPEATED
          type_name: ".vision_model_fns.protos.RuledNet" }
  field { name: "batch" number: 3 type: TYPE_INT32 label: LABEL_OPTIONAL default_value: "1" }
  field { name: "boxes" number: 4 type: TYPE_INT32 label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] { only_for: "finder both" min: 1
                                                     ignored: "there are none" } } }
  field { name: "finder" number: 5 type: TYPE_MESSAGE label: LABEL_OPTIONAL
          type_name: ".vision_model_fns.protos.RuledNet"
          options { [vision_model_fns.protos.rule] { only_for: "finder" } } }
  field { name: "bits" number: 6 type: TYPE_INT32 label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] { values: ["8"] unsupported: "eight alone" } } }
  field { name: "sequences" number: 7 type: TYPE_BOOL label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] { only_for: "finder" values: ["false"]
                                                     unsupported: "one by one" } } }
}
message_type {
  name: "RuledNet"
  field { name: "kind" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] { required: true } } }
  field { name: "size" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] { required: true min: 1 max: 9 } } }
  field { name: "layers" number: 3 type: TYPE_INT32 label: LABEL_REPEATED
          options { [vision_model_fns.protos.rule] { required: true } } }
  field { name: "part" number: 4 type: TYPE_MESSAGE label: LABEL_OPTIONAL
          type_name: ".vision_model_fns.protos.RuledPart"
          options { [vision_model_fns.protos.rule] { required: true } } }
  field { name: "least" number: 5 type: TYPE_FLOAT label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] { not_above: "most" } } }
  field { name: "most" number: 6 type: TYPE_FLOAT label: LABEL_OPTIONAL default_value: "2" }
  field { name: "head" number: 7 type: TYPE_MESSAGE label: LABEL_OPTIONAL
          type_name: ".vision_model_fns.protos.RuledPart"
          options { [vision_model_fns.protos.rule] { unsupported: "there is one head" } } }
  field { name: "square" number: 8 type: TYPE_BOOL label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] { unsupported: "all are" } } }
  field { name: "queue" number: 9 type: TYPE_INT32 label: LABEL_OPTIONAL default_value: "5"
          options { [vision_model_fns.protos.rule] { ignored: "there is none" } } }
  field { name: "merge" number: 10 type: TYPE_BOOL label: LABEL_OPTIONAL default_value: "true"
          options { [vision_model_fns.protos.rule] { requires: "layers > 1" } } }
  field { name: "narrow" number: 11 type: TYPE_INT32 label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] { requires: "size < 5" } } }
  field { name: "deep" number: 12 type: TYPE_BOOL label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] { requires: "part" } } }
  field { name: "wide" number: 13 type: TYPE_BOOL label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] { requires: "size: 8|9" } } }
  field { name: "fast" number: 14 type: TYPE_BOOL label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] { requires: "batch > 2 or wide" } } }
  field { name: "odd" number: 15 type: TYPE_BOOL label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] { requires: "a ~ b" } } }
  field { name: "tall" number: 16 type: TYPE_BOOL label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] { needs: ["size > 4", "merge"] } } }
  field { name: "flat" number: 17 type: TYPE_BOOL label: LABEL_OPTIONAL
          options { [vision_model_fns.protos.rule] {
            excludes: ["tall", "part", "size: 8|9", "layers > 2"] } } }
  field { name: "means" number: 18 type: TYPE_FLOAT label: LABEL_REPEATED
          options { [vision_model_fns.protos.rule] { entries: 3 } } }
  field { name: "kernels" number: 19 type: TYPE_INT32 label: LABEL_REPEATED
          options { [vision_model_fns.protos.rule] { one_for_each: "layers" } } }
}
message_type {
  name: "RuledPart"
  options { [vision_model_fns.protos.conflict] {
    when: ["sequences", "dense"] at: "sparse" problem: "{batch} at a time." } }
  field { name: "dense" number: 1 type: TYPE_BOOL label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "sparse" number: 2 type: TYPE_BOOL label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "other" number: 3 type: TYPE_BOOL label: LABEL_OPTIONAL oneof_index: 0
          options { [vision_model_fns.protos.rule] { unsupported: "not here" } } }
  oneof_decl { name: "layer" options { [vision_model_fns.protos.needed]: true } }
}
"""


def _create_message_class():
    assert rules_pb2  # registers the options that the file has
    pool, file = descriptor_pool.Default(), descriptor_pb2.FileDescriptorProto()
    text_format.Parse(_FILE, file)
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName('vision_model_fns.protos.RuledConfig')
    )


RuledConfig = _create_message_class()


def parse(text):
    return text_format.Parse(text, RuledConfig())


def find_field(path):
    """Return a field by its path: `net.size`."""
    message = RuledConfig.DESCRIPTOR
    for name in path.split('.'):
        field = message.fields_by_name[name]
        message = field.message_type
    return field
