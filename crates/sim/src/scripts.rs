//! Scripts and functions of the clients: they write several keys, and take longer than one slice.
//!
//! While a script runs, each reading of a node's clock advances the clock
//! ([`NodePlan::look_us`](crate::node::NodePlan)), so that a few calls take a whole slice.

use crate::workload::Words;
use sluice_base::Rng;

/// The body that scripts and functions share. The arguments are the number of calls before the first write,
/// the number of calls after each write, the ordinal of the write after which the body fails (0 for none),
/// another database to write to (0 for none), and, if there is one, the words of a further command to call
/// after each write.
const BODY: &str = "
local function pass(times)
  for i = 1, tonumber(times) do
    if i % 3 == 0 then for j = 1, 3000 do end else server.pcall('GET', 's0') end
  end
end
pass(args[1])
for at, key in ipairs(keys) do
  server.call('SET', key, '1')
  if at == tonumber(args[3]) then error('as it was told') end
  if args[4] ~= '0' then
    server.call('SELECT', args[4])
    server.pcall('INCR', 'n1')
    server.call('SELECT', '0')
  end
  if #args > 4 then server.pcall(unpack(args, 5)) end
  pass(args[2])
end
return server.status_reply('OK')
";

/// A part of the error of a script that fails on purpose.
pub const FAILED_AS_TOLD: &str = "as it was told";

/// What a script or function does: its calls and its writes.
#[derive(Clone, Debug)]
pub struct Course {
    /// The keys that are set, one after the other.
    pub keys: Vec<Vec<u8>>,
    /// Number of calls before the first write, and number of calls after each write.
    pub calls: (u64, u64),
    /// The ordinal of the write after which the script fails; 0 for none.
    pub fails_at: u64,
    /// A second database that is written to; 0 for none.
    pub db: u64,
    /// A command that is called after each write.
    pub beside: Words,
}

impl Course {
    /// The arguments after the script or the name of the function.
    fn words(&self) -> Words {
        let numbers = [self.calls.0, self.calls.1, self.fails_at, self.db].map(|number| number.to_string());
        let mut words = vec![self.keys.len().to_string().into_bytes()];
        words.extend(self.keys.iter().cloned());
        words.extend(numbers.map(String::into_bytes));
        words.extend(self.beside.iter().cloned());
        words
    }

    /// An EVAL with this course.
    pub fn eval(&self) -> Words {
        let script = format!("local keys, args = KEYS, ARGV{BODY}");
        [vec![b"EVAL".to_vec(), script.into_bytes()], self.words()].concat()
    }

    /// An FCALL of this library's function with this course.
    pub fn fcall(&self, library: u64) -> Words {
        [vec![b"FCALL".to_vec(), format!("f{library}").into_bytes()], self.words()].concat()
    }

    /// An EVAL_RO whose script ends after `calls` calls of GET.
    pub fn reads(calls: u64) -> Words {
        let script =
            b"for i = 1, tonumber(ARGV[1]) do server.pcall('GET', 's0') end return server.status_reply('OK')";
        vec![b"EVAL_RO".to_vec(), script.to_vec(), b"0".to_vec(), calls.to_string().into_bytes()]
    }
}

/// Draws a command for a script to call in addition to its own writes; no words if it is to call none.
pub fn beside(rng: &mut Rng) -> Words {
    let words: &[&str] = match rng.below(8) {
        0 => &["INCR", "n1"],
        1 => &["SPOP", "t1"],
        2 => &["LMOVE", "l0", "l1", "LEFT", "RIGHT"],
        3 => &["PEXPIRE", "s1", "300"],
        4 => &["RPUSH", "l0", "from a script"],
        5 => &["SET", "s0", "from a script", "PX", "200"],
        _ => &[],
    };
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Number of libraries that are loaded and deleted at random: `l0` with the function `f0` and so on.
pub const LIBRARIES: u64 = 2;

/// Number of the library whose version only ever rises.
const KEPT: u64 = LIBRARIES;

/// The code of a library, which contains `version`.
fn code(library: u64, version: u64) -> Vec<u8> {
    let function = format!("server.register_function('f{library}', function(keys, args){BODY}end)");
    format!("#!lua name=l{library}\n--{version};\nfor i = 1, 9000 do end\n{function}\n").into_bytes()
}

/// FUNCTION LOAD REPLACE of a library.
pub fn load(library: u64, version: u64) -> Words {
    vec![b"FUNCTION".to_vec(), b"LOAD".to_vec(), b"REPLACE".to_vec(), code(library, version)]
}

/// FUNCTION LOAD REPLACE of the library whose version only ever rises.
pub fn load_kept(version: u64) -> Words {
    load(KEPT, version)
}

/// FUNCTION DELETE of a library.
pub fn delete(library: u64) -> Words {
    vec![b"FUNCTION".to_vec(), b"DELETE".to_vec(), format!("l{library}").into_bytes()]
}

/// The version of the library whose version only ever rises, if `code` is the code of that library.
pub fn kept_version(code: &[u8]) -> Option<u64> {
    let rest = code.strip_prefix(format!("#!lua name=l{KEPT}\n--").as_bytes())?;
    let digits = rest.split(|byte| *byte == b';').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}
