//! Lua values: eight bytes each, copied freely.
//!
//! A value is a double, or something else in bit patterns that arithmetic never produces: the highest
//! sixteen bits are the kind, the lower ones an index into an arena of the heap.
//!
//! Invariants: (1) only two NaNs are numbers: the quiet ones without payload, one of each sign; (2) a value
//! never dangles: a stale index names another object of the same kind, or a free slot; an index beyond the
//! last slot panics, which only a host can cause, by using a value of a run that has ended.

/// The types that `type` names, with functions and user data divided by origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The type of the value `nil`.
    Nil,
    /// The type of `true` and `false`.
    Boolean,
    /// The type of `cjson.null`, a null pointer.
    LightUserdata,
    /// A number, which is a double.
    Number,
    /// A string of any bytes.
    String,
    /// A table of the heap.
    Table,
    /// A function written in Lua.
    Closure,
    /// A native function of a library or the host.
    Native,
    /// An object that `newproxy` made.
    Userdata,
    /// A coroutine; the main program has this type, too.
    Thread,
}

impl Kind {
    /// The name that `type` returns.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Nil => "nil",
            Kind::Boolean => "boolean",
            Kind::LightUserdata | Kind::Userdata => "userdata",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Table => "table",
            Kind::Closure | Kind::Native => "function",
            Kind::Thread => "thread",
        }
    }
}

/// A Lua value of any type, in eight bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LuaValue(u64);

/// The short name, for code that uses no other kind of value.
pub type Value = LuaValue;

const SHIFT: u32 = 48;
const SPECIAL: u64 = 0xfff9;
const STRING: u64 = 0xfffa;
const TABLE: u64 = 0xfffb;
const CLOSURE: u64 = 0xfffc;
const NATIVE: u64 = 0xfffd;
const USERDATA: u64 = 0xfffe;
const THREAD: u64 = 0xffff;

/// The first bit pattern that is not a number.
const NOT_A_NUMBER: u64 = SPECIAL << SHIFT;

const NAN_SIGN: u64 = 0x8000_0000_0000_0000;
const NAN_QUIET: u64 = 0x7ff8_0000_0000_0000;

macro_rules! reference {
    ($(#[$doc:meta])* $name:ident, $tag:ident, $as:ident, $is:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) u32);

        impl From<$name> for Value {
            #[inline(always)]
            fn from(index: $name) -> Value {
                LuaValue($tag << SHIFT | u64::from(index.0))
            }
        }

        impl Value {
            /// The reference, if the value is of that kind.
            #[inline(always)]
            pub fn $as(self) -> Option<$name> {
                if self.$is() { Some($name(self.0 as u32)) } else { None }
            }

            /// Whether the value is of that kind.
            #[inline(always)]
            pub fn $is(self) -> bool {
                self.0 >> SHIFT == $tag
            }
        }
    };
}

reference! {
    /// A string in the heap. Two strings of the same text may have different references.
    StrRef, STRING, as_str, is_str
}
reference! {
    /// A table in the heap.
    TableRef, TABLE, as_table, is_table
}
reference! {
    /// A Lua function in the heap.
    ClosureRef, CLOSURE, as_closure, is_closure
}
reference! {
    /// A native function of a library or the host.
    NativeRef, NATIVE, as_native, is_native
}
reference! {
    /// A userdata object that `newproxy` made.
    UserdataRef, USERDATA, as_userdata, is_userdata
}
reference! {
    /// A coroutine in the heap.
    ThreadRef, THREAD, as_thread, is_thread
}

impl Value {
    /// The value `nil`, which is also the default.
    pub const NIL: Value = LuaValue(NOT_A_NUMBER);
    /// The boolean value `false`.
    pub const FALSE: Value = LuaValue(NOT_A_NUMBER + 1);
    /// The boolean value `true`.
    pub const TRUE: Value = LuaValue(NOT_A_NUMBER + 2);
    /// The null pointer as light userdata: `cjson.null`.
    pub(crate) const NULL: Value = LuaValue(NOT_A_NUMBER + 3);
    /// The key of an entry whose key was collected; programs never see this value.
    pub(crate) const DEAD: Value = LuaValue(NOT_A_NUMBER + 4);

    /// A number from any double: a NaN keeps its sign but not its payload.
    #[inline]
    pub fn number(number: f64) -> Value {
        let bits = number.to_bits();
        if number.is_nan() { LuaValue(bits & NAN_SIGN | NAN_QUIET) } else { LuaValue(bits) }
    }

    /// A number that is the result of arithmetic on other values: its NaNs have no payload.
    #[inline(always)]
    pub(crate) fn result(number: f64) -> Value {
        LuaValue(number.to_bits())
    }

    /// The boolean value for `truth`.
    #[inline(always)]
    pub const fn boolean(truth: bool) -> Value {
        LuaValue(NOT_A_NUMBER + 1 + truth as u64)
    }

    /// The number, if the value is one; strings are not converted.
    #[inline(always)]
    pub fn as_number(self) -> Option<f64> {
        if self.is_number() { Some(f64::from_bits(self.0)) } else { None }
    }

    /// The value's bits as a double; the value must be a number.
    #[inline(always)]
    pub(crate) fn double(self) -> f64 {
        f64::from_bits(self.0)
    }

    /// Whether the value is a number.
    #[inline(always)]
    pub fn is_number(self) -> bool {
        self.0 < NOT_A_NUMBER
    }

    /// Whether the value is `nil`.
    #[inline(always)]
    pub fn is_nil(self) -> bool {
        self.0 == NOT_A_NUMBER
    }

    /// Whether a condition counts the value as true: every value except `nil` and `false`.
    #[inline(always)]
    pub fn truthy(self) -> bool {
        self.0.wrapping_sub(NOT_A_NUMBER) > 1
    }

    /// Whether the value is `true` or `false`.
    #[inline]
    pub fn is_boolean(self) -> bool {
        self == Value::TRUE || self == Value::FALSE
    }

    /// Whether the value is a function.
    #[inline]
    pub fn is_function(self) -> bool {
        self.is_closure() || self.is_native()
    }

    /// Whether both values have the same bits: identity for all values except numbers and strings.
    #[inline(always)]
    pub fn same(self, other: Value) -> bool {
        self.0 == other.0
    }

    /// Whether the value names an object in the heap.
    #[inline(always)]
    pub(crate) fn is_object(self) -> bool {
        self.0 >= STRING << SHIFT
    }

    /// The 64 bits of the value, kind and index.
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// The type of the value.
    pub fn kind(self) -> Kind {
        match self.0 >> SHIFT {
            SPECIAL => match self {
                Value::FALSE | Value::TRUE => Kind::Boolean,
                Value::NULL => Kind::LightUserdata,
                _ => Kind::Nil,
            },
            STRING => Kind::String,
            TABLE => Kind::Table,
            CLOSURE => Kind::Closure,
            NATIVE => Kind::Native,
            USERDATA => Kind::Userdata,
            THREAD => Kind::Thread,
            _ => Kind::Number,
        }
    }

    /// The name of the type, as `type` returns it.
    pub fn type_name(self) -> &'static str {
        self.kind().name()
    }

    /// The result of `tostring` for a value that is neither a string nor a number and has no `__tostring`:
    /// `nil`, `true`, `false`, or the type and a substitute for the address.
    pub fn plain_text(self) -> String {
        match self.kind() {
            Kind::Nil => "nil".to_owned(),
            Kind::Boolean => (self == Value::TRUE).to_string(),
            _ => format!("{}: {}", self.type_name(), address(self)),
        }
    }
}

/// The substitute for an object's address: different for any two objects of a kind.
pub(crate) fn address(value: Value) -> String {
    if value == Value::NULL {
        return "(nil)".to_string();
    }
    let kind = u64::from(value.kind() as u8);
    format!("0x7f{:010x}", kind << 36 | (value.bits() & 0xffff_ffff) << 4)
}

impl Default for Value {
    fn default() -> Value {
        Value::NIL
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.as_number() {
            Some(number) => write!(f, "{number}"),
            None => write!(f, "{}:{:x}", self.type_name(), self.0 & 0xffff_ffff),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_double_is_a_number_and_keeps_its_sign() {
        for bits in [0, 1 << 63, 0x7ff0 << 48, 0xfff0 << 48, u64::MAX, 0x7fff << 48, 0xfffa << 48 | 7] {
            let value = Value::number(f64::from_bits(bits));
            let number = value.as_number().expect("a number");
            assert_eq!(number.is_nan(), f64::from_bits(bits).is_nan());
            assert_eq!(number.to_bits() >> 63, bits >> 63);
        }
    }

    #[test]
    fn kinds_are_told_apart() {
        assert!(
            !Value::NIL.truthy() && !Value::FALSE.truthy() && Value::TRUE.truthy() && Value::NULL.truthy()
        );
        assert!(Value::number(0.0).truthy() && Value::from(StrRef(0)).truthy());
        assert_eq!(Value::from(TableRef(9)).as_table(), Some(TableRef(9)));
        assert_eq!(Value::from(TableRef(9)).as_str(), None);
        assert_eq!(Value::from(ThreadRef(u32::MAX)).kind(), Kind::Thread);
    }
}
