pub trait NotifyTarget<Item: ListItem> {
    const USED: bool = true;

    fn on_set(&mut self, items: &[Item], at_marker: ItemMarker<Item>);
    fn on_delete(&mut self, items: &[Item]);
}

impl<Item: ListItem> NotifyTarget<Item> for () {
    const USED: bool = false;
    fn on_set(&mut self, _items: &[Item], _at_marker: ItemMarker<Item>) {}
    fn on_delete(&mut self, _items: &[Item]) {}
}

/// This represents a single entry in either the nexts pointers list or in an
/// iterator.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SkipEntry<Item: ListItem> {
    /// The node being pointed to.
    node: *mut Node<Item>,

    /// The number of *items* between the start of the current node and the
    /// start of the next node. That means nexts entry 0 contains the length of
    /// the current node.
    skip_usersize: usize,
}

// We can't use #[derive()] here for Copy and Clone due to a bug in the rust
// compiler: https://github.com/rust-lang/rust/issues/26925
impl<Item: ListItem> Copy for SkipEntry<Item> {}
impl<Item: ListItem> Clone for SkipEntry<Item> {
    fn clone(&self) -> Self { *self }
}

impl<Item: ListItem> SkipEntry<Item> {
    fn new_null() -> Self {
        SkipEntry { node: ptr::null_mut(), skip_usersize: 0 }
    }
}



/// The node structure is designed in a very fancy way which would be more at
/// home in C or something like that. The basic idea is that the node structure
/// is fixed size in memory, but the proportion of that space taken up by
/// characters and by the height differ depending on a node's height. This
/// results in a lot of `unsafe` blocks. I think the tradeoff is worth it but I
/// could be wrong here. You probably wouldn't lose much performance in practice
/// by replacing the inline structure with a smallvec - but that would waste
/// memory in small nodes, and require extra pointer indirection on large nodes.
/// It also wouldn't remove all the unsafe here.
///
/// A different representation (which might be better or worse - I can't tell)
/// would be to have the nodes all be the same size in memory and change the
/// *proportion* of the node's memory that is used by the string field vs the
/// next pointers. That might be lighter weight for the allocator because the
/// struct itself would be a fixed size; but I'm not sure if it would be better.
#[repr(C)] // Prevent parameter reordering.
pub(super) struct Node<Item: ListItem> {
    /// We start with the items themselves. Only the first `num_items` of this
    /// list is in use. The user specified length of the items in the node is
    /// stored in nexts[0].skip_items. This is initialized with
    /// Default::default() for the type, but when MaybeUninit completely lands,
    /// it will be possible to make this a tiny bit faster by leaving the list
    /// initially uninitialized.
    items: [MaybeUninit<Item>; NODE_NUM_ITEMS],

    /// Number of items in `items` in use / filled.
    num_items: u8,

    /// Height of nexts array.
    height: u8,

    /// With the heads array as is, we have no way to go from a marker back to a
    /// cursor (which is required to insert at that location in the list). For
    /// that we need to be able to figure out at each level of the nexts
    /// pointers which object points to us, and the offset from that element to
    /// the current element. Anyway, for markers to work we need this.
    parent: *mut Node<Item>,

    // #[repr(align(std::align_of::<SkipEntry>()))]
    
    /// In reality this array has the size of height, allocated using more or
    /// less direct calls to malloc() at runtime based on the randomly generated
    /// size. The size is always at least 1.
    nexts: [SkipEntry<Item>; 0],
}

// Make sure nexts uses correct alignment. This should be guaranteed by repr(C)
// This test will fail if this ever stops being true.
#[test]
fn test_align() {
    struct Item(u8);
    impl ListItem for Item {}
    #[repr(C)] struct Check([SkipEntry<Item>; 0]);
    assert!(mem::align_of::<Check>() >= mem::align_of::<SkipEntry<Item>>());
    // TODO: It'd be good to also check the alignment of the nexts field in Node.
}
