import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';

/** Numbers of fields in the data plane's record of a database, and in the location of its backups that is one of them. */
const locationField = 2;
const ownFields: ReadonlySet<number> = new Set([1, 2, 3]);

/** No version of the data plane has it. */
const laterField = 99;

/** With a field of a later version of the data plane, in the record and in its location. */
export function withLaterFields(record: Uint8Array): Uint8Array {
  const later = new BinaryWriter().tag(laterField, WireType.LengthDelimited).string('later');
  const bytes = later.finish();
  return Buffer.concat([
    ...fieldsOf(record).map(({ number, raw, content }) =>
      number === locationField && content !== undefined
        ? new BinaryWriter()
            .tag(locationField, WireType.LengthDelimited)
            .bytes(Buffer.concat([content, bytes]))
            .finish()
        : raw,
    ),
    bytes,
  ]);
}

/** Everything in the record that is not Millrace's to write: all but where backups are kept, and whether encrypted. */
export function othersIn(record: Uint8Array): Uint8Array {
  return Buffer.concat(
    fieldsOf(record).flatMap(({ number, raw, content }) =>
      number === locationField && content !== undefined
        ? fieldsOf(content).flatMap((field) => (ownFields.has(field.number) ? [] : [field.raw]))
        : [raw],
    ),
  );
}

interface Field {
  readonly number: number;
  /** With its tag. */
  readonly raw: Uint8Array;
  /** Of a field whose length is given. */
  readonly content: Uint8Array | undefined;
}

function fieldsOf(message: Uint8Array): readonly Field[] {
  const reader = new BinaryReader(message);
  const fields: Field[] = [];
  while (reader.pos < reader.len) {
    const from = reader.pos;
    const [number, wireType] = reader.tag();
    const content = wireType === WireType.LengthDelimited ? reader.bytes() : undefined;
    if (content === undefined) {
      reader.skip(wireType, number);
    }
    fields.push({ number, raw: message.subarray(from, reader.pos), content });
  }
  return fields;
}
