//! A generator of random programs that end. In a program, `T` counts the iterations of all loops and the
//! calls of all long functions, and after 400 of them each loop and function ends at once. A string `o`
//! records what the program sees: values, errors, and tables in the order of `pairs`.

use sluice_base::Rng;

const HEAD: &str = "local o, N = '', 0
local function T() N = N + 1 return N > 400 end
local function S(...)
  for i = 1, select('#', ...) do
    local v = select(i, ...)
    local t = type(v)
    if #o > 6000 then return end
    if t == 'string' then o = o .. v .. ';' elseif t == 'number' or t == 'boolean' or t == 'nil' then o = o .. tostring(v) .. ';' else o = o .. t .. ';' end
  end
end
local function D(t) if type(t) ~= 'table' then return S(t) end for k in pairs(t) do local y = type(k) if y == 'table' or y == 'function' or y == 'thread' then return S('objects', #t) end end o = o .. '{' for k, v in pairs(t) do S(k, v) end o = o .. '}' .. #t end
local function P(f, ...) S(pcall(f, ...)) end
local function K(v) local y = type(v) if y == 'table' or y == 'function' or y == 'thread' then return 'object' end return v end
";

/// A random program, as Lua source.
pub(crate) fn program(rng: &mut Rng) -> String {
    let mut writer = Writer {
        rng,
        out: HEAD.to_string(),
        locals: vec!["a".into(), "b".into(), "t".into(), "s".into()],
        functions: Vec::new(),
        next: 0,
        in_loop: false,
        varargs: true,
        level: 0,
    };
    writer.out.push_str("local a, b, t, s = 1, 2.5, {1, 2, 3, x = 4, y = 'z'}, 'str'\n");
    for _ in 0..writer.pick(6) + 2 {
        if writer.pick(40) != 0 {
            writer.out.push_str("P(function(...)\n");
            let outer = writer.locals.len();
            writer.block(3);
            writer.locals.truncate(outer);
            writer.out.push_str("end, 1, 'v')\n");
        } else {
            writer.statement(3);
        }
    }
    writer.out.push_str("D(t) S(a, b, s)\nreturn o\n");
    writer.out
}

struct Writer<'r> {
    rng: &'r mut Rng,
    out: String,
    locals: Vec<String>,
    functions: Vec<String>,
    next: u32,
    in_loop: bool,
    varargs: bool,
    level: u32,
}

const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "10",
    "0.5",
    "1e15",
    "1e100",
    "-0.25",
    "255",
    "2147483648",
    "7",
    "0x10",
    "1e-3",
    "1/0",
];
const TEXTS: [&str; 14] = [
    "''", "'a'", "'abc'", "'10'", "'0x1F'", "' 5 '", "'x y z'", "'1e2'", "'%d+'", "'key'", "\"q\\n\"", "'n'",
    "'\\0z'", "'A-B'",
];
const FIELDS: [&str; 8] = ["x", "y", "n", "key", "foo", "bar", "__index", "len"];
const EVENTS: [&str; 15] = [
    "__index",
    "__newindex",
    "__call",
    "__add",
    "__sub",
    "__mul",
    "__div",
    "__mod",
    "__pow",
    "__unm",
    "__concat",
    "__eq",
    "__lt",
    "__le",
    "__len",
];
const OPERATORS: [&str; 15] =
    ["+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", ">", "<=", ">=", "and", "or"];

impl Writer<'_> {
    fn pick(&mut self, below: u64) -> u64 {
        self.rng.below(below)
    }

    fn one(&mut self, of: &[&'static str]) -> &'static str {
        of[self.rng.below(of.len() as u64) as usize]
    }

    fn local(&mut self) -> String {
        let at = self.rng.below(self.locals.len() as u64) as usize;
        self.locals[at].clone()
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("v{}", self.next)
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    // Statements.

    fn block(&mut self, depth: u32) {
        let outer = self.locals.len();
        let functions = self.functions.len();
        for _ in 0..self.pick(4) + 1 {
            self.statement(depth);
        }
        if self.pick(6) == 0 {
            if self.in_loop && self.pick(2) == 0 {
                self.put("break\n");
            } else if self.level > 0 {
                let expr = self.list(2);
                self.put(&format!("return {expr}\n"));
            }
        }
        self.locals.truncate(outer);
        self.functions.truncate(functions);
    }

    fn statement(&mut self, depth: u32) {
        // Lua allows at most 200 local variables in a function.
        if depth == 0 || self.locals.len() > 60 {
            let expr = self.list(2);
            return self.put(&format!("S({expr})\n"));
        }
        match self.pick(22) {
            0..=2 => self.declare(),
            3..=5 => self.assign(),
            6..=8 => {
                let expr = self.list(2);
                self.put(&format!("S({expr})\n"));
            }
            9 => {
                let condition = self.expr(2);
                self.put(&format!("if {condition} then\n"));
                self.nested(depth);
                if self.pick(2) == 0 {
                    let other = self.expr(1);
                    self.put(&format!("elseif {other} then\n"));
                    self.nested(depth);
                }
                if self.pick(2) == 0 {
                    self.put("else\n");
                    self.nested(depth);
                }
                self.put("end\n");
            }
            10..=12 => self.a_loop(depth),
            13 | 14 => self.function(depth),
            15 => self.protected(depth),
            16 => self.metatable(depth),
            17 => self.coroutine(depth),
            18 => {
                let table = self.local();
                self.put(&format!("D({table})\n"));
            }
            19 => self.call_statement(),
            20 => self.list_work(),
            _ => {
                self.put("do\n");
                self.nested(depth);
                self.put("end\n");
            }
        }
    }

    fn nested(&mut self, depth: u32) {
        self.block(depth - 1);
    }

    fn declare(&mut self) {
        let expr = self.list(2);
        let name = self.fresh();
        if self.pick(3) == 0 {
            let second = self.fresh();
            self.put(&format!("local {name}, {second} = {expr}\n"));
            self.locals.push(second);
        } else {
            self.put(&format!("local {name} = {expr}\n"));
        }
        self.locals.push(name);
    }

    fn target(&mut self) -> String {
        let name = self.local();
        match self.pick(4) {
            0 => format!("{name}.{}", self.one(&FIELDS)),
            1 => format!("t[K({})]", self.expr(1)),
            _ => name,
        }
    }

    fn assign(&mut self) {
        let first = self.target();
        let expr = self.list(2);
        if self.pick(4) == 0 {
            let second = self.target();
            self.put(&format!("{first}, {second} = {expr}\n"));
        } else {
            self.put(&format!("{first} = {expr}\n"));
        }
    }

    fn a_loop(&mut self, depth: u32) {
        let before = std::mem::replace(&mut self.in_loop, true);
        let outer = self.locals.len();
        let name = self.fresh();
        let mut end = "end\n".to_string();
        match self.pick(6) {
            0 => {
                let (from, to) = (self.expr(1), self.pick(6));
                self.put(&format!("for {name} = {from}, {to} do if T() then break end\n"));
            }
            1 => {
                let (from, step) = (self.pick(6), self.one(&["1", "2", "-1", "0.5", "'1'"]));
                let to = self.expr(1);
                self.put(&format!("for {name} = {from}, {to}, {step} do if T() then break end\n"));
            }
            2 => {
                let table = self.local();
                let value = self.fresh();
                let walk = self.one(&["pairs", "ipairs"]);
                self.put(&format!("for {name}, {value} in {walk}({table}) do if T() or type({name}) == 'table' then break end\n"));
                self.locals.push(value);
            }
            3 => {
                let condition = self.expr(2);
                self.put(&format!("local {name} = 0 while {condition} do {name} = {name} + 1 if T() or {name} > 4 then break end\n"));
            }
            4 => {
                self.put(&format!("for {name} in ('a1b2'):gmatch('%a') do if T() then break end\n"));
            }
            _ => {
                self.put(&format!("local {name} = 0 repeat {name} = {name} + 1 if T() then break end\n"));
                let condition = self.expr(1);
                end = format!("until {name} > 3 or ({condition})\n");
            }
        }
        self.locals.push(name);
        self.put("do\n");
        self.nested(depth);
        self.put("end\n");
        self.locals.truncate(outer);
        self.in_loop = before;
        self.put(&end);
    }

    /// Writes the body of a function, which can neither leave a loop of the outer function nor use the outer
    /// function's extra arguments.
    fn body(&mut self, depth: u32, params: &[String], varargs: bool) {
        let before = (self.in_loop, self.varargs, self.level);
        (self.in_loop, self.varargs) = (false, varargs);
        self.level += 1;
        let outer = self.locals.len();
        self.locals.extend(params.iter().cloned());
        self.put("if T() then return end\n");
        self.block(depth - 1);
        self.locals.truncate(outer);
        (self.in_loop, self.varargs, self.level) = before;
    }

    fn function(&mut self, depth: u32) {
        let name = self.fresh();
        let params: Vec<String> = (0..self.pick(3)).map(|_| self.fresh()).collect();
        let varargs = self.pick(2) == 0;
        let mut list = params.join(", ");
        if varargs {
            list.push_str(if list.is_empty() { "..." } else { ", ..." });
        }
        if self.pick(2) == 0 {
            self.put(&format!("local function {name}({list})\n"));
        } else {
            self.put(&format!("local {name} = function({list})\n"));
        }
        self.body(depth, &params, varargs);
        self.put("end\n");
        self.functions.push(name.clone());
        let args = self.list(1);
        match self.pick(3) {
            0 => self.put(&format!("S({name}({args}))\n")),
            1 => self.put(&format!("P({name}, {args})\n")),
            _ => {}
        }
        self.locals.push(name);
    }

    fn protected(&mut self, depth: u32) {
        let handler = self.pick(3);
        self.put(if handler == 0 { "S(xpcall(function()\n" } else { "S(pcall(function()\n" });
        self.body(depth, &[], false);
        match (handler, self.pick(3)) {
            (0, 0) => self.put("end, function(e) return 'H' .. tostring(e):sub(1, 5) end))\n"),
            (0, _) => self.put("end, function(e) S(e) return e end))\n"),
            _ => self.put("end))\n"),
        }
    }

    fn metatable(&mut self, depth: u32) {
        let name = self.fresh();
        self.put(&format!("local {name} = setmetatable({{}}, {{\n"));
        for _ in 0..self.pick(3) + 1 {
            let event = self.one(&EVENTS);
            if event == "__index" && self.pick(2) == 0 {
                self.put("__index = t,\n");
            } else if event == "__newindex" && self.pick(2) == 0 {
                self.put("__newindex = t,\n");
            } else {
                let (x, y) = (self.fresh(), self.fresh());
                self.put(&format!("{event} = function({x}, {y}, ...)\n"));
                self.body(depth, &[x, y], true);
                let result = self.expr(1);
                self.put(&format!("return {result} end,\n"));
            }
        }
        self.put("})\n");
        self.locals.push(name);
    }

    fn coroutine(&mut self, depth: u32) {
        let name = self.fresh();
        let wrapped = self.pick(2) == 0;
        self.put(&format!(
            "local {name} = coroutine.{}(function(...)\n",
            if wrapped { "wrap" } else { "create" }
        ));
        let first = self.list(2);
        self.put(&format!("S(coroutine.yield({first}))\n"));
        self.body(depth, &[], true);
        self.put("end)\n");
        for _ in 0..self.pick(3) + 1 {
            let args = self.list(1);
            if wrapped {
                self.put(&format!("P({name}, {args})\n"));
            } else {
                self.put(&format!("S(coroutine.resume({name}, {args})) S(coroutine.status({name}))\n"));
            }
        }
        self.locals.push(name);
    }

    fn call_statement(&mut self) {
        let call = self.call(2);
        if call.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            self.put(&format!("{call}\n"));
        } else {
            self.put(&format!("S({call})\n"));
        }
    }

    fn list_work(&mut self) {
        let table = self.local();
        let value = self.expr(1);
        let at = self.pick(5);
        let text = match self.pick(7) {
            // Only a single value is passed: with two, the first would be a position, and a position of 1e15
            // takes minutes.
            0 => format!("table.insert({table}, ({value}))\n"),
            1 => format!("table.insert({table}, {at}, {value})\n"),
            2 => format!("S(table.remove({table}))\n"),
            3 => format!("S(table.remove({table}, {at}))\n"),
            4 => format!("S(table.concat({table}, ','))\n"),
            5 => "do local q = {5, 2, 8, 1, 9, 3} table.sort(q, function(x, y) return x > y end) S(unpack(q)) end\n".to_string(),
            _ => format!("S(table.maxn({table}))\n"),
        };
        self.put(&text);
    }

    // Expressions.

    fn list(&mut self, depth: u32) -> String {
        let count = 1 + self.pick(3) / 2;
        let items: Vec<String> = (0..count).map(|_| self.expr(depth)).collect();
        items.join(", ")
    }

    fn expr(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.atom();
        }
        match self.pick(16) {
            0..=3 => self.atom(),
            4..=7 => {
                let (left, right) = (self.expr(depth - 1), self.expr(depth - 1));
                let op = self.one(&OPERATORS);
                if self.pick(2) == 0 {
                    format!("({left} {op} {right})")
                } else {
                    format!("{left} {op} {right}")
                }
            }
            8 => {
                let op = self.one(&["- ", "not ", "#"]);
                let operand = self.expr(depth - 1);
                format!("{op}{operand}")
            }
            9 => format!("{}.{}", self.local(), self.one(&FIELDS)),
            10 => {
                let (table, key) = (self.local(), self.expr(depth - 1));
                format!("{table}[{key}]")
            }
            11 => self.constructor(depth - 1),
            12 => {
                let result = self.expr(depth - 1);
                format!(
                    "(function(...) return {} end)({result})",
                    self.one(&["...", "select('#', ...)", "(...)"])
                )
            }
            _ => self.call(depth - 1),
        }
    }

    fn atom(&mut self) -> String {
        match self.pick(12) {
            0..=2 => self.one(&NUMBERS).to_string(),
            3 | 4 => self.one(&TEXTS).to_string(),
            5 => self.one(&["true", "false", "nil"]).to_string(),
            6 if self.varargs => "...".to_string(),
            _ => self.local(),
        }
    }

    fn constructor(&mut self, depth: u32) -> String {
        let mut items = Vec::new();
        for _ in 0..self.pick(6) {
            let value = self.expr(depth);
            items.push(match self.pick(4) {
                0 => format!("{} = {value}", self.one(&FIELDS)),
                1 => format!(
                    "[{}] = {value}",
                    self.one(&["1", "2", "3", "5", "'k'", "1.5", "-1", "true", "10"])
                ),
                _ => value,
            });
        }
        format!("{{{}}}", items.join(", "))
    }

    fn call(&mut self, depth: u32) -> String {
        let x = self.expr(depth);
        let y = self.expr(depth);
        let small = self.one(&["0", "1", "2", "3", "-1", "-2", "5"]);
        let pattern =
            self.one(&["'%a+'", "'(.)(.)'", "'^a'", "'.-'", "'%d*'", "'[b-y]+'", "'()'", "'%s*$'", "'%bxz'"]);
        match self.pick(34) {
            0 => format!("tostring({x}):sub(1, 5)"),
            1 => format!("tonumber({x})"),
            2 => format!("tonumber({x}, {})", self.one(&["2", "8", "10", "16", "36"])),
            3 => format!("type({x})"),
            4 => format!("select({small}, {x}, {y})"),
            5 => format!("select('#', {x}, {y})"),
            6 => format!("rawget(t, {x})"),
            7 => format!("rawequal({x}, {y})"),
            8 => format!("unpack({x})"),
            9 => format!("next(t, {})", self.one(&["nil", "1", "'x'", "'nokey'"])),
            10 => format!("string.sub({x}, {small}, {y})"),
            11 => format!("string.rep({x}, {small})"),
            12 => format!("string.byte({x}, {small}, {small})"),
            13 => format!("string.upper({x})"),
            14 => format!("string.reverse({x})"),
            15 => format!("string.find({x}, {pattern})"),
            16 => format!("string.match({x}, {pattern})"),
            17 => format!(
                "string.gsub({x}, {pattern}, {})",
                self.one(&["'<%0>'", "'%1'", "{a = 'A', b = 1}", "string.upper", "''"])
            ),
            18 => format!(
                "string.format({}, {x})",
                self.one(&["'%d'", "'%5.2f'", "'%s'", "'%q'", "'%x'", "'%-5s|'", "'%g'", "'%c'"])
            ),
            19 => format!("string.char({small})"),
            20 => format!("math.floor({x})"),
            21 => format!("math.max({x}, {y})"),
            22 => format!("math.fmod({x}, 3)"),
            23 => format!("math.abs({x})"),
            24 => format!("string.len({x})"),
            25 => format!("({x}):{}()", self.one(&["upper", "len", "lower", "nomethod"])),
            26 => format!(
                "loadstring({})",
                self.one(&["'return 1'", "'x ='", "'return ...'", "'local a = 5 return a.b'"])
            ),
            27 => format!("pcall(error, {x}, {small})"),
            28 => format!("assert({x}, {y})"),
            29 => format!("error({x}, {small})"),
            30 | 31 if !self.functions.is_empty() => {
                let at = self.rng.below(self.functions.len() as u64) as usize;
                format!("{}({x}, {y})", self.functions[at])
            }
            32 => format!("{}({x})", self.local()),
            _ => format!("bit.band({x}, {y})"),
        }
    }
}
