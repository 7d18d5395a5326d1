// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the kernel writes an event: the text of `events/SYSTEM/NAME/format`
//! (Documentation/trace/events.rst, section 4).

/// Number and fields of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// In `common_type` of each record.
    pub id: u16,
    fields: Vec<Field>,
}

/// One field of a record; all numbers are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    name: String,
    offset: usize,
    size: usize,
    place: FieldOffset,
}

/// Where the field's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldOffset {
    Here,
    /// Offset in the record (low 16 bits) and length (high 16 bits) are here.
    Elsewhere,
    /// The same, the offset counted from the end of the field.
    After,
}

impl EventFormat {
    /// Reads the text.
    pub fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?;
        Some(Self {
            id: id.trim().parse().ok()?,
            fields: fields(text),
        })
    }

    /// A field by its name.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|field| field.name == name).cloned()
    }
}

/// All fields of such a text; also of `header_page`.
pub(super) fn fields(text: &str) -> Vec<Field> {
    text.lines().filter_map(field).collect()
}

/// `field:__data_loc char[] name; offset:12; size:4; signed:0;`
fn field(line: &str) -> Option<Field> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?;
    let name = declared.split_whitespace().next_back()?;
    let name = name.split('[').next()?.trim_start_matches('*');
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
    Some(Field {
        name: name.to_owned(),
        offset: number("offset:")?,
        size: number("size:")?,
        place: match declared {
            d if d.starts_with("__data_loc") => FieldOffset::Elsewhere,
            d if d.starts_with("__rel_loc") => FieldOffset::After,
            _ => FieldOffset::Here,
        },
    })
}

impl Field {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Its number; `None` in a record that is too short.
    pub fn number(&self, record: &[u8]) -> Option<i64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match *bytes {
            [a] => i64::from(a),
            [a, b] => i64::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => return None,
        })
    }

    /// Its text, to the first zero; `None` in a record that is too short.
    pub fn text<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let (offset, size) = match self.place {
            FieldOffset::Here => (self.offset, self.size),
            FieldOffset::Elsewhere | FieldOffset::After => {
                let word = self.number(record)? as u32;
                let from = match self.place {
                    FieldOffset::After => self.offset + self.size,
                    _ => 0,
                };
                (from + (word & 0xffff) as usize, (word >> 16) as usize)
            }
        };
        let bytes = record.get(offset..offset.checked_add(size)?)?;
        bytes.split(|byte| *byte == 0).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of Linux 6.18, x86-64.
    const IRQ: &str = "\
name: irq_handler_entry
ID: 225
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:int irq;	offset:8;	size:4;	signed:1;
	field:__data_loc char[] name;	offset:12;	size:4;	signed:0;

print fmt: \"irq=%d name=%s\", REC->irq, __get_str(name)
";

    #[test]
    fn fields_are_found_where_the_format_says() {
        let format = EventFormat::parse(IRQ).unwrap();
        assert_eq!(format.id, 225);
        let mut record = vec![225, 0, 0, 1, 7, 0, 0, 0, 36, 0, 0, 0];
        record.extend(((5 << 16) | 16u32).to_le_bytes());
        record.extend(b"eth0\0");
        let of = |name: &str| format.field(name).unwrap();
        assert_eq!(of("irq").number(&record), Some(36));
        assert_eq!(of("common_type").number(&record), Some(225));
        assert_eq!(of("name").text(&record), Some(&b"eth0"[..]));
        assert_eq!(of("name").text(&record[..18]), None);
        assert_eq!(of("irq").number(&record[..10]), None);
        assert_eq!(format.field("nothing"), None);
    }

    #[test]
    fn an_array_is_a_text() {
        let line = "\tfield:char next_comm[16];\toffset:2;\tsize:4;\tsigned:0;";
        let field = field(line).unwrap();
        assert_eq!(field.name(), "next_comm");
        assert_eq!(field.text(b"xxab\0dyy"), Some(&b"ab"[..]));
        assert_eq!(field.text(b"xxabcdyy"), Some(&b"abcd"[..]));
        assert_eq!(EventFormat::parse("no format"), None);
    }
}
