//! What the parser hands over: a reused arena of requests and their arguments.

/// A run of bytes: of the parsed input, or of the arena's own text for inline requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Number of bytes.
    pub len: usize,
}

/// The complete requests of one call of [`crate::Parser::parse`], in order.
///
/// Spans are relative to the input of that call: the same slice must be given to [`Requests::at`].
#[derive(Debug, Default)]
pub struct Requests {
    pub(crate) args: Vec<Span>,
    list: Vec<Entry>,
    /// Words of inline requests, which may be unescaped and so are not ranges of the input.
    pub(crate) words: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    first: usize,
    argc: usize,
    raw: Span,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Multibulk,
    Inline,
}

/// One request: at least one argument, the name of the command first.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
    raw: &'a [u8],
    form: Form,
}

impl Requests {
    /// An empty arena; nothing is allocated.
    pub fn new() -> Requests {
        Requests::default()
    }

    /// How many requests there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Forgets the requests. Keeps the memory, but not more than usual traffic needs.
    #[inline]
    pub fn clear(&mut self) {
        self.list.clear();
        self.args.clear();
        self.words.clear();
        if self.args.capacity() > ARGS_KEPT || self.words.capacity() > WORDS_KEPT {
            self.args.shrink_to(ARGS_KEPT);
            self.words.shrink_to(WORDS_KEPT);
        }
    }

    /// The request number `index`; `input` is what was parsed. Panics when there is no such request.
    #[inline]
    pub fn at<'a>(&'a self, index: usize, input: &'a [u8]) -> Request<'a> {
        let entry = &self.list[index];
        Request {
            bytes: match entry.form {
                Form::Multibulk => input,
                Form::Inline => &self.words,
            },
            spans: &self.args[entry.first..entry.first + entry.argc],
            raw: &input[entry.raw.start..entry.raw.start + entry.raw.len],
            form: entry.form,
        }
    }

    /// The requests in order; `input` is what was parsed.
    pub fn iter<'a>(&'a self, input: &'a [u8]) -> impl ExactSizeIterator<Item = Request<'a>> {
        (0..self.len()).map(move |index| self.at(index, input))
    }

    /// Concludes the request whose arguments were pushed since `first`.
    #[inline]
    pub(crate) fn push(&mut self, first: usize, raw: Span, form: Form) {
        debug_assert!(first < self.args.len());
        self.list.push(Entry { first, argc: self.args.len() - first, raw, form });
    }
}

impl<'a> Request<'a> {
    /// Number of arguments with the command's name: 1 or more.
    #[inline]
    pub fn argc(&self) -> usize {
        self.spans.len()
    }

    /// The argument number `index`; 0 is the command's name. Panics when there is no such argument.
    #[inline]
    pub fn arg(&self, index: usize) -> &'a [u8] {
        let span = self.spans[index];
        &self.bytes[span.start..span.start + span.len]
    }

    /// The arguments in order.
    #[inline]
    pub fn args(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| &bytes[span.start..span.start + span.len])
    }

    /// The arguments as ranges of [`Request::bytes`], for holders that keep no iterator.
    #[inline]
    pub fn spans(&self) -> &'a [Span] {
        self.spans
    }

    /// What the spans are relative to.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes of the whole request as they came, with its line ends: what a replica's offset counts.
    #[inline]
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Whether it came as a line of words.
    #[inline]
    pub fn is_inline(&self) -> bool {
        self.form == Form::Inline
    }
}

/// A full batch of 1,024 requests of four arguments.
const ARGS_KEPT: usize = 4096;
/// As much as one inline line may be without being exceptional.
const WORDS_KEPT: usize = 64 * 1024;
