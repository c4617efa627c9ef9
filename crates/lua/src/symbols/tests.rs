use super::*;
use std::collections::VecDeque;

/// Number of symbols that are alive at a time. `GOING` symbols are freed together.
const KEPT: usize = 500;
const GOING: usize = 128;

/// Adds names, of which the last `KEPT` stay alive; the indexes of the others become free in no particular
/// order.
/// Returns the largest number of slots that the table had.
fn slots_at_most(names: usize, name: impl Fn(usize) -> String) -> usize {
    let (mut heap, mut symbols) = (Heap::new(64 << 20), MachineSymbols::default());
    let (mut live, mut gone, mut most) = (VecDeque::new(), Vec::new(), 0);
    for number in 0..names {
        let text: Arc<[u8]> = name(number).into_bytes().into();
        let symbol = symbols.symbol(&mut heap, &text, SymbolUse::Lasts).expect("room");
        live.push_back((text, symbol));
        if live.len() > KEPT {
            let (_, oldest) = live.pop_front().expect("a symbol");
            gone.push(oldest.as_str().expect("a string").0);
        }
        if gone.len() == GOING {
            gone.sort_by_key(|index| u64::from(*index).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32);
            gone.drain(..).for_each(|index| heap.strings.texts.release(index));
        }
        most = most.max(symbols.own.slots.len());
    }
    for (text, symbol) in live {
        let found = symbols.symbol(&mut heap, &text, SymbolUse::Lasts).expect("room");
        assert!(found == symbol, "{text:?} is the symbol that it was");
    }
    most
}

#[test]
fn a_table_is_as_large_as_what_lives_however_many_names_have_come() {
    // In the first case all names are new; in the second, names return and get other indexes.
    for turns in [usize::MAX, 3 * KEPT] {
        let most = slots_at_most(200_000, |number| format!("user:{}", number % turns));
        assert!(most <= 4 * (KEPT + GOING + 1), "{most} slots");
    }
}

#[test]
fn strings_of_runs_in_slots_of_symbols_take_no_room_in_a_table() {
    let (mut heap, mut symbols) = (Heap::new(64 << 20), MachineSymbols::default());
    let mut add = |heap: &mut Heap, text: String| {
        let text: Arc<[u8]> = text.into_bytes().into();
        let symbol = symbols.symbol(heap, &text, SymbolUse::Lasts).expect("room");
        (symbol.as_str().expect("a string").0, symbols.own.slots.len())
    };
    let names: Vec<u32> = (0..2000).map(|number| add(&mut heap, format!("name:{number}")).0).collect();
    names.iter().for_each(|index| heap.strings.texts.release(*index));
    let kept: Vec<Value> = names.iter().map(|_| heap.new_string(b"OK").expect("room")).collect();
    assert!(kept.iter().all(|text| names.contains(&text.as_str().expect("a string").0)));
    // The table is full of freed symbols, so a rebuild makes a table for these 1200 names alone.
    let slots = (0..1200).map(|number| add(&mut heap, format!("other:{number}")).1).last();
    assert_eq!(slots, Some(4096));
    assert_eq!(symbols.own.find(b"OK", &heap.strings), None);
}
