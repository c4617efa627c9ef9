//! The targets: one entry for each function, with initial inputs and words of its format.

/// A function that takes any bytes and must neither panic nor hang.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&[u8]),
    /// Initial inputs; more may be in `fuzz/corpus/NAME/`.
    pub(crate) seeds: &'static [&'static [u8]],
    /// Texts with a meaning in the format.
    pub(crate) words: &'static [&'static [u8]],
}

/// Every target, in the order in which they run. The two `canary` targets fail on purpose and run only to
/// check the runner.
pub(crate) const TARGETS: &[Target] = &[
    Target {
        name: "resp-requests",
        run: sluice_resp::parse::fuzz_requests,
        seeds: &[
            b"\x00*1\r\n$4\r\nPING\r\n",
            b"\xe0*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
            b"\x01PING\r\nSET \"a b\" 'c'\r\n\r\nGET \"\\x00\\n\"\r\n",
            b"\x21*-1\r\n*0\r\n*1\r\n$0\r\n\r\n",
        ],
        words: &[b"*1\r\n", b"$1\r\n", b"\r\n", b"\n", b"\"", b"'", b"\\x0", b"*-1\r\n", b"$-1\r\n", b" "],
    },
    Target {
        name: "resp-replies",
        run: sluice_resp::decode::fuzz_reply,
        seeds: &[
            b"+OK\r\n",
            b"*3\r\n:1\r\n$-1\r\n$1\r\na\r\n",
            b"%1\r\n+a\r\n~2\r\n#t\r\n,1.5\r\n",
            b"=7\r\ntxt:abc\r\n|1\r\n+k\r\n_\r\n(123\r\n",
        ],
        words: &[b"*2\r\n", b"%1\r\n", b"~1\r\n", b"_\r\n", b"#f\r\n", b",inf\r\n", b"(1\r\n", b">1\r\n", b"|1\r\n", b"$0\r\n\r\n"],
    },
    Target {
        name: "resp-extents",
        run: sluice_resp::extent::fuzz_extent,
        seeds: &[
            b"\x01*3\r\n:1\r\n$-1\r\n$1\r\na\r\n",
            b"\x03|1\r\n+k\r\n_\r\n%1\r\n+a\r\n~2\r\n#t\r\n,1.5\r\n",
            b"\x02=7\r\ntxt:abc\r\n+OK\r\n",
        ],
        words: &[b"*2\r\n", b"%1\r\n", b"|1\r\n", b"$3\r\nabc\r\n", b"$999\r\n", b"*-1\r\n", b"\r\n", b"$0\r\n\r\n"],
    },
    Target {
        name: "config",
        run: sluice_config::fuzz_parse,
        seeds: &[
            b"port 6379\nbind 127.0.0.1 -::1\nsave 900 1\nsave \"\"\nmaxmemory 100mb\n",
            b"--port\n0\n--save\n\n--appendonly\nyes\n",
            b"# comment\ninclude other.conf\nclient-output-buffer-limit normal 0 0 0\nrename-command GET \"\"\n",
        ],
        words: &[b"\"", b"'", b"\\x", b"\n", b" ", b"--", b"include ", b"yes", b"no", b"mb", b"%", b"save ", b"#"],
    },
    Target {
        name: "users-file",
        run: crate::users::file,
        seeds: &[
            b"user default on nopass ~* &* +@all\nuser alice on >secret ~a* %R~b* resetchannels &c db=1,2 -@all +get +@read -set\n",
            b"user a off (~x +get) (%W~\"y\" &z +config|get)\r\n\n  user b on #e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n",
            b"user c on +select|1 +@all -@write clearselectors resetpass nopass resetdbs alldbs allkeys",
        ],
        words: USER_WORDS,
    },
    Target {
        name: "users-rules",
        run: crate::users::rules,
        seeds: &[
            b"on\n>secret\n~a*\n%R~b\n&c\n+@read\n-get\n+config|get\ndb=3,1",
            b"nopass\n+@all\n-@dangerous\n+select|0\n(~x +get &y)\r(%RW~z -@all)\n<secret\nresetchannels",
            b"(~'a\"b' +get)\nallkeys\nresetkeys\n~'\"\\\rreset\nclearselectors\nalldbs\nresetdbs\n%W~*",
        ],
        words: USER_WORDS,
    },
    Target {
        name: "glob",
        run: sluice_base::glob::fuzz_glob,
        seeds: &[b"\x05h?l*ohello", b"\x07[^a-c]*\\*x*", b"\x03*a*aaaaaaaaaa"],
        words: &[b"*", b"?", b"[", b"]", b"[^", b"-", b"\\", b"[a-z]", b"**"],
    },
    Target {
        name: "quote",
        run: sluice_base::quote::fuzz_quote,
        seeds: &[b"set k \"a b\\x41\\n\" 'it\\'s'", b"a\"b\"'c' \x0b \t\r\n"],
        words: &[b"\"", b"'", b"\\", b"\\x", b" ", b"\0", b"\\\""],
    },
    Target {
        name: "long-double",
        run: sluice_base::longdouble::fuzz_long_double,
        seeds: &[b"3.14159", b"-1e4932", b"0x1.8p3", b"inf"],
        words: &[b"e", b"E-", b".", b"inf", b"0x", b"p", b"-", b"9999999999999999999"],
    },
    Target {
        name: "rdb",
        run: sluice_persist::rdb::fuzz_rdb,
        seeds: &[
            b"VALKEY080\xfa\nvalkey-ver\x059.1.2\xfa\nredis-bits\xc0@\xfe\x00\xfb\x03\x02\xf8\x01\x00\x01k\x01v\xfcy*\xf0\xf7\xa1\x01\0\0\xf9\
              \x06\x00\x01z\xc3\t\x1e\x01bb\xe0\x11\x00\x01bb\xff\0\0\0\0\0\0\0\0",
            b"VALKEY080\x12\x01k\x02\x02\x0c\x0c\0\0\0\x02\0\x81a\x02\x07\x01\xff\x01\x05hello\xff\0\0\0\0\0\0\0\0",
            b"REDIS0009\x0a\x01b\x12\x12\0\0\0\x0e\0\0\0\x02\0\x00\x02ab\x04\xfe\x07\xff\x0e\x01c\x01\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff\
              \x01\x01a\x03\x01x\xc0\x05\x01z\xff\0\0\0\0\0\0\0\0",
            b"REDIS0011\xfe\x40\x01\xfd\0\0\0\0\x00\x80\0\0\0\x01k\xc1\x01\x02\xff\0\0\0\0\0\0\0\0",
            b"VALKEY080\xf5\x03lib\xfe\x00\xf4\x01\x02\x01\xf7\x01\x02\x01\x01\x05\x00\x02\x01k\x02\x01a\xc0\x05\x03\x01z\x01\x01a\x011\
              \xff\0\0\0\0\0\0\0\0",
            b"VALKEY080\x15\x01s\x01\x10iiiiiiiiiiiiiiii\x02lp\x01\x05\x00\x01\x02\x03\x04\x05\x01\x01g\x05\x00\x07\x01iiiiiiiiiiiiiiiitttttttt\x01\x01\
              \x01cttttttttaaaaaaaa\x01iiiiiiiiiiiiiiii\xff\0\0\0\0\0\0\0\0",
            b"\x56\x43\x53\x01\x01\x00\x01\x04\x22\x4d\x18\x40\x40\xc0\x29\x00\x00\x00\xf6\x08\x56\x41\x4c\x4b\x45\x59\
              \x30\x38\x31\xfe\x00\x00\x04\x6b\x65\x79\x30\x10\x76\x61\x6c\x75\x65\x05\x00\x11\x30\x17\x00\x1b\x31\x17\
              \x00\x50\x65\x31\x00\x04\x6b\x45\x00\x00\x00\x3c\x65\x79\x32\x17\x00\x11\x32\x2e\x00\x1c\x33\x17\x00\x11\
              \x33\x17\x00\x1c\x34\x17\x00\x11\x34\x17\x00\x1c\x35\x17\x00\xf0\x16\x35\x17\x04\x74\x72\x65\x65\x02\x02\
              \x2f\x61\x02\x01\x66\x01\x76\x01\x67\xc0\x05\x02\x2f\x62\x01\x01\x68\x01\x77\xff\x00\x00\x00\x00\x00\x00\
              \x00\x00\x00\x00\x00\x00",
            b"\x56\x43\x53\x01\x01\x00\x01\x04\x22\x4d\x18\x74\x40\xbd\x29\x00\x00\x00\xf6\x08\x56\x41\x4c\x4b\x45\x59\
              \x30\x38\x31\xfe\x00\x00\x04\x6b\x65\x79\x30\x10\x76\x61\x6c\x75\x65\x05\x00\x11\x30\x17\x00\x1b\x31\x17\
              \x00\x50\x65\x31\x00\x04\x6b\xfd\xd0\xde\x1a\x4d\x00\x00\x00\x96\x65\x79\x32\x10\x76\x61\x6c\x75\x65\x05\
              \x00\x7c\x32\x00\x04\x6b\x65\x79\x33\x17\x00\x11\x33\x17\x00\x1c\x34\x17\x00\x11\x34\x17\x00\x1c\x35\x17\
              \x00\xf0\x16\x35\x17\x04\x74\x72\x65\x65\x02\x02\x2f\x61\x02\x01\x66\x01\x76\x01\x67\xc0\x05\x02\x2f\x62\
              \x01\x01\x68\x01\x77\xff\x00\x00\x00\x00\x00\x00\x00\x00\x42\x41\x04\x16\x00\x00\x00\x00\x2d\x89\x7b\xd7",
            b"\x56\x41\x4c\x4b\x45\x59\x30\x38\x31\xfe\x00\x00\x04\x6b\x65\x79\x30\x10\x76\x61\x6c\x75\x65\x76\x61\x6c\
              \x75\x65\x76\x61\x6c\x75\x65\x30\x00\x04\x6b\x65\x79\x31\x10\x76\x61\x6c\x75\x65\x76\x61\x6c\x75\x65\x76\
              \x61\x6c\x75\x65\x31\x00\x04\x6b\x65\x79\x32\x10\x76\x61\x6c\x75\x65\x76\x61\x6c\x75\x65\x76\x61\x6c\x75\
              \x65\x32\x00\x04\x6b\x65\x79\x33\x10\x76\x61\x6c\x75\x65\x76\x61\x6c\x75\x65\x76\x61\x6c\x75\x65\x33\x00\
              \x04\x6b\x65\x79\x34\x10\x76\x61\x6c\x75\x65\x76\x61\x6c\x75\x65\x76\x61\x6c\x75\x65\x34\x00\x04\x6b\x65\
              \x79\x35\x10\x76\x61\x6c\x75\x65\x76\x61\x6c\x75\x65\x76\x61\x6c\x75\x65\x35\x17\x04\x74\x72\x65\x65\x02\
              \x02\x2f\x61\x02\x01\x66\x01\x76\x01\x67\xc0\x05\x02\x2f\x62\x01\x01\x68\x01\x77\xff\x00\x00\x00\x00\x00\
              \x00\x00\x00",
            b"\x56\x43\x53\x01\x02\x00\x01\x28\xb5\x2f\xfd\x04\x58\x2d\x02\x00\xb4\x02\x56\x41\x4c\x4b\x45\x59\x30\x38\
              \x31\xfe\x00\x00\x04\x6b\x65\x79\x30\x10\x76\x61\x6c\x75\x65\x30\x31\x31\x32\x32\x33\x33\x34\x34\x35\x35\
              \xff\x00\x00\x00\x00\x00\x00\x00\x00\x0b\x00\x00\x05\x5c\x07\x90\x81\x4b\x00\x1e\xb8\x18\x40\x01\xd7\x01\
              \x64\x3a\xaf\x88\xad\x34\x01\x6a\x4d\xe7\xc9",
            b"\x56\x43\x53\x01\x02\x00\x01\x28\xb5\x2f\xfd\x20\x9e\x1d\x02\x00\xb4\x02\x56\x41\x4c\x4b\x45\x59\x30\x38\
              \x31\xfe\x00\x00\x04\x6b\x65\x79\x30\x10\x76\x61\x6c\x75\x65\x30\x31\x31\x32\x32\x33\x33\x34\x34\x35\x35\
              \xff\x00\x00\x00\x00\x00\x00\x00\x00\x0b\xa8\x10\xf0\xfa\xbf\x03\xb0\x13\x0f\x10\x92\x31\x94\x7b\xc1\x25\
              \xba\x6a\x78\x22\x03",
        ],
        words: &[
            b"VCS\x01\x02\0\x01\x28\xb5\x2f\xfd\0\x38", b"\xc3", b"\x81\xff\xff\xff\xff\xff\xff\xff\xff", b"\x80\xff\xff\xff\xff", b"\xfe\x00", b"\xff\0\0\0\0\0\0\0\0",
            b"VCS\x01\x01\0\x01\x04\x22\x4d\x18\x40\x40\xc0", b"\0\0\0\x80", b"\0\0\0\0",
        ],
    },
    Target {
        name: "packed-stream",
        run: sluice_persist::rdb::fuzz_packed_stream,
        seeds: &[
            b"\x56\x43\x53\x01\x02\x00\x02\x28\xb5\x2f\xfd\x00\x38\x70\x00\x00\x2a\x31\x0d\x0a\x24\x34\x0d\x0a\x50\x49\
              \x4e\x47\x0d\x0a\xa2\x00\x00\x78\x01\x00\x00",
            b"\x56\x43\x53\x01\x01\x00\x02\x04\x22\x4d\x18\x40\x40\xc0\x0e\x00\x00\x80\x2a\x31\x0d\x0a\x24\x34\x0d\x0a\
              \x50\x49\x4e\x47\x0d\x0a\x00\x00\x00\x00",
        ],
        words: &[b"VCS\x01\x02\0\x02", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18\x40\x40\xc0", b"\0\0\0\0", b"\xff\xff\xff"],
    },
    Target {
        name: "restore",
        run: sluice_persist::rdb::fuzz_payload,
        seeds: &[
            b"\x00\x05helloP\0\0\0\0\0\0\0\0\0",
            b"\x00\xc3\t\x1e\x01bb\xe0\x11\x00\x01bbP\0\0\0\0\0\0\0\0\0",
            b"\x12\x02\x02\x0c\x0c\0\0\0\x02\0\x81a\x02\x07\x01\xff\x01\x05hello\x50\0\0\0\0\0\0\0\0\0",
            b"\x0a\x12\x12\0\0\0\x0e\0\0\0\x02\0\x00\x02ab\x04\xfe\x07\xff\x0b\0\0\0\0\0\0\0\0\0",
            b"\x01\x03\x01x\xc0\x05\x01z\x09\0\0\0\0\0\0\0\0\0",
        ],
        words: &[b"\xc3", b"\x81\xff\xff\xff\xff\xff\xff\xff\xff", b"\x80\xff\xff\xff\xff", b"\xf0\xff\xff\xff\xff", b"\x02\x07\x07\0\0\0\0\0\xff"],
    },
    Target {
        name: "functions",
        run: sluice_persist::rdb::fuzz_functions,
        seeds: &[
            b"\xf5\x03lib\xf5\x05other\x50\0\0\0\0\0\0\0\0\0",
            b"\xf5\xc3\x09\x1e\x01bb\xe0\x11\x00\x01bb\x0b\0\0\0\0\0\0\0\0\0",
            b"\xf5\xc0\x05\xf5\xc1\x05\x01\xf6\x01x\x50\0\0\0\0\0\0\0\0\0",
        ],
        words: &[b"\xf5", b"\xf6", b"\xc3", b"\x81\xff\xff\xff\xff\xff\xff\xff\xff", b"\x80\xff\xff\xff\xff", b"\x50\0"],
    },
    Target {
        name: "aof",
        run: sluice_persist::aof::fuzz_aof,
        seeds: &[
            b"#TS:1795324409\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nset\r\n$1\r\na\r\n$1\r\n1\r\n",
            b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nset\r\n$1\r\na\r\n$1\r\n1\r\n*1\r\n$4\r\nEXEC\r\n#x\n*1\r\n$4\r\nping\r\n",
            b"VALKEY080\xfe\x00\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0*1\r\n$4\r\nping\r\n",
            b"REDIS0011\xff\0\0\0\0\0\0\0\0#TS:1\r\n*1\r\n$8\r\nflushall\r\n",
        ],
        words: &[b"*1\r\n", b"$1\r\n", b"\r\n", b"#TS:", b"\n", b"MULTI", b"EXEC", b"DISCARD", b"*0\r\n", b"$-1\r\n", b"REDIS", b"VALKEY"],
    },
    Target {
        name: "aof-manifest",
        run: sluice_persist::aof::fuzz_manifest,
        seeds: &[
            b"file appendonly.aof.2.base.rdb seq 2 type b\nfile appendonly.aof.1.incr.aof seq 1 type h\n\
              file appendonly.aof.2.incr.aof seq 2 type i\n",
            b"#c\nfile \"a b\\x41\" seq 3 type i startoffset 3 endoffset 5\n",
        ],
        words: &[b"file ", b"seq ", b"type ", b" b\n", b" h\n", b" i\n", b"\"", b"'", b"\\x", b"\n", b"#", b"-1", b"9223372036854775807", b"/"],
    },
    Target {
        name: "listpack",
        run: sluice_collections::listpack::fuzz_listpack,
        seeds: &[
            b"\x07\0\0\0\0\0\xff",
            b"\x1a\0\0\0\x05\0\x83one\x04\x02\x01\xd4\x48\x02\xf1\x48\xf4\x03\xf2\x70\x11\x01\x04\xff",
            b"\x0e\0\0\0\x01\0\xf0\x01\0\0\0a\x06\xff",
        ],
        words: &[b"\xf0\xff\xff\xff\xff", b"\xef\xff", b"\xf4", b"\xff", b"\x81", b"\xff\xff"],
    },
    Target {
        name: "restored",
        run: sluice_testkit::fuzz_restored,
        seeds: &[
            b"\x00", b"\x01", b"\x02", b"\x03", b"\x04", b"\x05", b"\x06", b"\x07", b"\x08", b"\x09", b"\x0a", b"\x0b", b"\x0c",
            b"\x0d", b"\x0e", b"\x0f", b"\x10", b"\x11\x07\x01",
            b"\xff\x12\x02\x02\x0c\x0c\0\0\0\x02\0\x81a\x02\x07\x01\xff\x01\x05hello",
            b"\xff\x01\x03\x01x\xc0\x05\x01z",
        ],
        words: &[b"\xc3", b"\x80\xff\xff\xff\xff", b"\x01\xff", b"\x0b\x00", b"\x05\x80", b"\x02\xff", b"\x10\x01"],
    },
    Target {
        name: "replica-requests",
        run: sluice_testkit::fuzz_replica,
        seeds: &[
            b"R listening-port 6380\nR capa eof capa psync2\nR version 9.0.0\nP ? -1\nR ACK 0\nR ACK 100 FACK 50",
            b"R rdb-channel 1 rdb-only 1\nS\nC\nR set-rdb-client-id 3\nP ? 1\nI replication",
            b"R rdb-filter-only functions\nR capa eof\nP ? -1\nW b 1\nR GETACK *\nR ip-address 10.0.0.1",
            b"P 0101010101010101010101010101010101010101 1\nR ACK 1",
        ],
        words: &[
            b"\n", b" ", b"R ", b"P ", b"S", b"C\n", b"capa", b"eof", b"psync2", b"dual-channel", b"ACK", b"FACK", b"GETACK *",
            b"rdb-channel 1", b"rdb-only 1", b"version", b"9223372036854775807", b"-1", b"set-rdb-client-id", b"?",
        ],
    },
    Target {
        name: "primary-replies",
        run: sluice_replication::fuzz_primary,
        seeds: &[
            b"\x01+PONG\r\n+OK\r\n+OK\r\n+OK\r\n+CONTINUE bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n*1\r\n$4\r\nping\r\n",
            b"\x10-NOAUTH no\r\n+OK\r\n-ERR x\r\n+OK\r\n+FULLRESYNC bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb 12\r\n\n$5\r\nhello*1\r\n",
            b"\xff+PONG\r\n+OK\r\n+OK\r\n+OK\r\n+FULLRESYNC bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb 12\r\n\
              $EOF:cccccccccccccccccccccccccccccccccccccccc\r\nhellocccccccccccccccccccccccccccccccccccccccc",
            b"\x20+PONG\r\n+OK\r\n+OK\r\n+OK\r\n-ERR unknown command 'PSYNC'\r\n$0\r\n",
        ],
        words: &[
            b"\r\n", b"\n", b"+OK\r\n", b"+PONG\r\n", b"+FULLRESYNC ", b"+CONTINUE", b"-ERR ", b"-LOADING", b"-NOMASTERLINK",
            b"+DUALCHANNELSYNC\r\n", b"$EOF:", b"$", b"18446744073709551615", b"-1", b" ",
        ],
    },
    Target {
        name: "bus-packet",
        run: sluice_cluster::fuzz_bus_packets,
        seeds: &[
            include_bytes!("../../crates/cluster/tests/golden/meet-first.bin"),
            include_bytes!("../../crates/cluster/tests/golden/meet-again.bin"),
            include_bytes!("../../crates/cluster/tests/golden/ping-all-names.bin"),
            include_bytes!("../../crates/cluster/tests/golden/pong-forgotten.bin"),
            include_bytes!("../../crates/cluster/tests/golden/ping-pfail-entry.bin"),
            include_bytes!("../../crates/cluster/tests/golden/pong-replica.bin"),
            include_bytes!("../../crates/cluster/tests/golden/fail.bin"),
            include_bytes!("../../crates/cluster/tests/golden/mfstart.bin"),
            include_bytes!("../../crates/cluster/tests/golden/auth-req-manual.bin"),
            include_bytes!("../../crates/cluster/tests/golden/auth-ack.bin"),
            include_bytes!("../../crates/cluster/tests/golden/publish-light.bin"),
            include_bytes!("../../crates/cluster/tests/golden/publishshard.bin"),
            b"RCmb\0\0\0\x20\0\x01\0\0\x80\x04\0\0\0\0\0\x04\0\0\0\x04newshiya",
        ],
        words: &[
            b"RCmb\0\0\x08\xd0\0\x01",
            b"RCmb\0\0",
            b"\xff\xff\xff\xff",
            b"\0\0\0\x08",
            b"\0\0\0\x30\0\x03\0\0",
            b"\x80\x04",
            b"\x80\x0a",
            b"1335dccd34bc7ed4e1066419e873733e27aba1ba",
            b"2e810a0df8a3231d993b6751bdf2eb647f16f1d4",
            b"4b5eea6c2ba2c9967323e4dcdd372bd9b37ef981",
            b"81e63840e536cd020240fd9777b897465fef3c7d",
            b"ffffffffffffffffffffffffffffffffffffffff",
            b"\x1c\x11",
            b"\x1c\x12",
        ],
    },
    Target {
        name: "cluster-words",
        run: sluice_testkit::fuzz_cluster_words,
        seeds: &[
            b"SCAN 0\nSCAN 0-{06S}-0 COUNT 1\nSCAN 0-{b}-0 SLOT 3300 MATCH {b}* TYPE string",
            b"C SETSLOT 3300 MIGRATING bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\nC SETSLOT 3300 STABLE\n\
              C SETSLOT 9000 IMPORTING bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb TIMEOUT 5\n\
              C SETSLOT 1 NODE bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
            b"C ADDSLOTSRANGE 0 5 7 9\nC DELSLOTS 1 2 3\nC DELSLOTSRANGE 10 20\nC FLUSHSLOT 3300 ASYNC\nC FLUSHSLOTS",
            b"C MEET 10.0.0.3 7003 17003\nC FORGET bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\nC RESET HARD\nC BUMPEPOCH",
            b"C SLOT-STATS SLOTSRANGE 0 100\nC SLOT-STATS ORDERBY key-count LIMIT 3 DESC\nC GETKEYSINSLOT 3300 7\nC NODES",
            b"C REPLICATE bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\nC REPLICATE NO ONE\nC FAILOVER FORCE\nC SET-CONFIG-EPOCH 9",
        ],
        words: &[
            b" ",
            b"\n",
            b"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
            b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            b"SETSLOT",
            b"TIMEOUT",
            b"16383",
            b"16384",
            b"18446744073709551615",
            b"-1",
            b"-{06S}-",
            b"COUNT",
            b"SLOT",
        ],
    },
    Target {
        name: "nodes-conf",
        run: sluice_cluster::fuzz_nodes_conf,
        seeds: &[
            include_bytes!("../../crates/cluster/tests/golden/stock-open-slots.conf"),
            include_bytes!("../../crates/cluster/tests/golden/stock-noaddr.conf"),
            include_bytes!("../../crates/cluster/tests/golden/replica.conf"),
            include_bytes!("../../crates/cluster/tests/golden/failed-peer.conf"),
            b"ffffffffffffffffffffffffffffffffffffffff 10.0.0.9:1@2 myself,slave \
              eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee 0 0 9 connected\n\
              eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee :0@0 slave ffffffffffffffffffffffffffffffffffffffff 0 0 9 x\n\
              vars currentEpoch 9 lastVoteEpoch 3\n",
        ],
        words: &[
            b"\n",
            b" ",
            b",",
            b"\"",
            b"myself,",
            b"master",
            b"slave",
            b",fail",
            b"noaddr",
            b"handshake",
            b"shard-id=",
            b"nodename=",
            b"tcp-port=",
            b" 0-16383",
            b" [5-<-ffffffffffffffffffffffffffffffffffffffff]",
            b" [5->-eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee]",
            b"ffffffffffffffffffffffffffffffffffffffff",
            b"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
            b"vars currentEpoch ",
            b" lastVoteEpoch ",
            b"9223372036854775808",
        ],
    },
    Target {
        name: "lua-source",
        run: sluice_lua::fuzz_source,
        seeds: &[
            b"local t = {} for i = 1, 9 do t[i] = i * 2 end return #t, t[3] .. 'x', pcall(error, t)",
            b"local function f(a, ...) if a > 1 then return f(a - 1, ...) end return select('#', ...) end return f(3, nil, 2)",
            b"local co = coroutine.wrap(function(x) while true do x = coroutine.yield(x + 1) end end) return co(1), co(2)",
            b"local t = setmetatable({}, {__index = function(t, k) return k end, __call = function() end}) return t.x, t(1), -t",
            b"return (('abc'):gsub('%w', function(c) return c:upper() end)), string.format('%5.2f|%q', 1, 'a\n')",
            b"local a, b = 1, {x = {[2] = 3; 4}} a, b.x = b.x, a local s = [==[ ]] ]==] repeat local c until c or not a",
            b"return table.concat({1, 2, 3}, ','), unpack({1, 2}), next({}), loadstring('return ...')(5), cjson.encode({1})",
        ],
        words: &[
            b"function", b"local ", b"return ", b"end ", b" do ", b"while ", b"for ", b" in pairs(t)", b"repeat ", b" until ", b"if ",
            b" then ", b"...", b"..", b"==", b"~=", b"[[", b"]]", b"--[[", b"setmetatable(", b"coroutine.yield(", b"pcall(", b"error(",
            b"nil", b"string.rep('x', 99)", b"t[", b"] = ", b"#t", b" and ", b" or ", b" not ", b"0x", b"1e308", b"collectgarbage()",
        ],
    },
    Target {
        name: "lua-pattern",
        run: sluice_lua::fuzz_pattern,
        seeds: &[
            b"^(%w+)%s*=%s*(.-)$\xffkey = value",
            b"%b()%f[%a]\xff(a(b)c) d",
            b"(a*(.)%1)[^%s-x]\xffaabb",
            b"()a?-+\xff--",
        ],
        words: &[b"%b()", b"%f[", b"%1", b"[^", b"]", b"()", b"(", b")", b".-", b"%", b"*", b"$", b"\xff", b"[%a-z]"],
    },
    Target {
        name: "lua-format",
        run: sluice_lua::fuzz_format,
        seeds: &[b"%5.2f|%-5d|%q|%s", b"%+#012.99g%x%c%%", b"%u%o%X%E%G"],
        words: &[b"%", b"-", b"+", b"#", b"0", b".99", b"99", b"g", b"f", b"e", b"d", b"s", b"q", b"c"],
    },
    Target {
        name: "lua-number",
        run: sluice_lua::fuzz_number,
        seeds: &[b" 0x1.8p-3 ", b"1e308", b"-inf", b"nan(1)", b"5e-324"],
        words: &[b"0x", b"p", b"e-", b".", b"inf", b"nan(", b")", b"-", b"99999999999999999999"],
    },
    Target {
        name: "lua-json",
        run: sluice_lua::fuzz_json,
        seeds: &[b"{\"a\": [1, -2.5e3, true, null, \"\\u00e9\\ud83d\\ude00\"]}", b"[inf, 0x1f, nan]", b"\"\\n\\/\""],
        words: &[b"\"", b"\\u", b"\\ud83d\\ude00", b"{", b"}", b"[", b"]", b":", b",", b"true", b"null", b"-", b"1e5", b"inf", b"0x"],
    },
    Target {
        name: "lua-packed",
        run: sluice_lua::fuzz_packed,
        seeds: &[b"\x92\x01\xa3abc", b"\xcb\x3f\xf0\0\0\0\0\0\0\xcf\xff\xff\xff\xff\xff\xff\xff\xff", b"\xdb\0\0\0\x01a\xd3\x80\0\0\0\0\0\0\0"],
        words: &[b"\xdb\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xca\x7f\xc0\0\0", b"\xc1", b"\xd9", b"\x90"],
    },
    Target {
        name: "lua-struct",
        run: sluice_lua::fuzz_struct,
        seeds: &[b">!4bHi3I8c0s", b"<!16dflLxT", b"c99 i32!2"],
        words: &[b"!", b">", b"c", b"i", b"99999999999", b"32", b"!2147483648", b"x"],
    },
    Target {
        name: "tls-server",
        run: crate::tls::server,
        seeds: &[
            b"\x00\xff\x01",
            b"\x01\x10\x01",
            b"\x00\x07\x01\x00\x30\x01",
            b"\x01\xff\x01\x00\xf0\x80\x01\x40\x01",
            include_bytes!("tls/hello13.bin"),
            include_bytes!("tls/hello12.bin"),
            b"\x00\xff\x00PING\r\n",
            b"\x00\x01\x00\x16\x03\x01\x00\x04\x01\x00\xff\xff",
        ],
        words: &[
            b"\x16\x03\x01",
            b"\x16\x03\x03",
            b"\x17\x03\x03",
            b"\x15\x03\x03\x00\x02\x01\x00",
            b"\x14\x03\x03\x00\x01\x01",
            b"\x01\x00\x00",
            b"\x00\x2b\x00\x03\x02\x03\x04",
            b"\x00\x33",
            b"\x00\x29",
            b"\x00\x23",
            b"\xff\xff",
        ],
    },
    Target {
        name: "tls-client",
        run: crate::tls_client::established,
        seeds: &[
            b"\x00\xff\x08\x10\x0b\x20\x05\x00\x08\x10\x0b\x20",
            b"\x01\x03\xf8\xff\xfb\xff\x0f\x09\xf8\xff",
            b"\x00\x01\xf9\xff\x05\x00\xfc\xff\x06\xff",
            b"\x01\xff\xfb\xff\x06\xf8\xfb\xff\x08\x10",
        ],
        words: &[b"\x05\x00", b"\xf8\xff", b"\xfb\xff", b"\x06\xff", b"\x06\xf8", b"\x0f\x00", b"\x0f\x05"],
    },
    Target {
        name: "tls-certificate",
        run: crate::tls::certificate,
        seeds: &[
            include_bytes!("tls/server.der"),
            include_bytes!("tls/server.crt"),
            include_bytes!("tls/server.key"),
            b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n",
        ],
        words: &[
            b"-----BEGIN CERTIFICATE-----\n",
            b"-----END CERTIFICATE-----\n",
            b"-----BEGIN PRIVATE KEY-----\n",
            b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
            b"Proc-Type: 4,ENCRYPTED\n",
            b"\x30\x82\xff\xff",
            b"\x30\x80",
            b"\x02\x01\x00",
            b"\x06\x03\x55\x1d\x11",
            b"\x06\x03\x55\x04\x03",
            b"\x86\x05urn:a",
            b"\x17\x0d",
            b"\x18\x0f99991231235959Z",
        ],
    },
    Target { name: "canary", run: canary_panic, seeds: &[b"canar"], words: &[b"y!"] },
    Target { name: "canary-abort", run: canary_abort, seeds: &[b"canar"], words: &[b"y!"] },
];

/// Panics on one text, which the runner must find.
fn canary_panic(data: &[u8]) {
    assert!(data != b"canary!", "the canary was found, as it should be");
}

/// Aborts the process on one text, as a stack overflow or exhausted memory does.
fn canary_abort(data: &[u8]) {
    if data == b"canary!" {
        std::process::abort();
    }
}

/// Words of ACL rules, for both targets about users.
const USER_WORDS: &[&[u8]] = &[
    b"user ",
    b"on",
    b"off",
    b"nopass",
    b"resetpass",
    b"reset",
    b"~",
    b"~*",
    b"%R~",
    b"%W~",
    b"%RW~",
    b"&",
    b"&*",
    b"+@all",
    b"-@all",
    b"+@read",
    b"-@write",
    b"+get",
    b"-get",
    b"+config|get",
    b"-config|set",
    b"+config",
    b"+select|1",
    b"+set|x",
    b"allkeys",
    b"resetkeys",
    b"allchannels",
    b"resetchannels",
    b"alldbs",
    b"resetdbs",
    b"db=1,2",
    b"clearselectors",
    b"(",
    b")",
    b" ",
    b"\n",
    b"\r",
    b"\"",
    b"'",
    b"\\",
    b"\0",
    b">p",
    b"<p",
    b"#",
    b"!",
    b"sanitize-payload",
];
