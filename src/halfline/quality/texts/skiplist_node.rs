pub struct SkipList<Item: ListItem, N: NotifyTarget<Item> = ()> {
    // TODO: Consider putting the head item on the heap. For the use case here
    // its almost certainly fine either way. The code feels a bit cleaner if its
    // on the heap (and then iterators will be able to outlast a move of the
    // skiplist parent). But its also very nice having the code run fast for
    // small lists. Most lists are small, and it makes sense to optimize for
    // that.

    // TODO: For safety, pointers in to this structure should be Pin<> if we
    // ever want to hold on to iterators.

    /// The total number of items in the skip list. This is not used internally -
    /// just here for bookkeeping.
    pub(super) num_items: usize,
    /// Size of the list in user specified units.
    pub(super) num_usercount: usize,

    /// The RNG we use to generate node heights. Specifying it explicitly allows
    /// unit tests and randomizer runs to be predictable, which is very helpful
    /// during debugging. I'm still not sure how the type of this should be
    /// specified. Should it be a generic parameter? Box<dyn *>?
    /// ??
    rng: Option<SmallRng>,

    /// The first node is inline. The height is 1 more than the max height we've
    /// ever used. The highest next entry points to {null, total usersize}.
    head: Node<Item>,

    /// This is so dirty. The first node is embedded in SkipList; but we need to
    /// allocate enough room for height to get arbitrarily large. I could insist
    /// on SkipList always getting allocated on the heap, but for small lists its
    /// much better to be on the stack.
    ///
    /// So this struct is repr(C) and I'm just padding out the struct directly.
    /// All accesses should go through head because otherwise I think we violate
    /// aliasing rules.
    _nexts_padding: [SkipEntry<Item>; MAX_HEIGHT],

    _phantom: PhantomData<N>
}


impl<Item: ListItem> Node<Item> {
    // Do I need to be explicit about the lifetime of the references being tied
    // to the lifetime of the node?
    fn nexts(&self) -> &[SkipEntry<Item>] {
        unsafe {
            std::slice::from_raw_parts(self.nexts.as_ptr(), self.height as usize)
        }
    }

    fn nexts_mut(&mut self) -> &mut [SkipEntry<Item>] {
        unsafe {
            std::slice::from_raw_parts_mut(self.nexts.as_mut_ptr(), self.height as usize)
        }
    }

    fn layout_with_height(height: u8) -> Layout {
        Layout::from_size_align(
            mem::size_of::<Node<Item>>() + mem::size_of::<SkipEntry<Item>>() * (height as usize),
            mem::align_of::<Node<Item>>()).unwrap()
    }

    fn alloc_with_height(height: u8) -> *mut Node<Item> {
        assert!(height >= 1 && height <= MAX_HEIGHT_U8);

        unsafe {
            let node = alloc(Self::layout_with_height(height)) as *mut Node<Item>;
            node.write(Node {
                items: uninit_items_array(),
                num_items: 0,
                height,
                parent: ptr::null_mut(),
                nexts: [],
            });

            for next in (*node).nexts_mut() {
                *next = SkipEntry::new_null();
            }

            node
        }
    }

    fn alloc<R: RngCore>(rng: &mut R) -> *mut Node<Item> {
        Self::alloc_with_height(random_height(rng))
    }

    unsafe fn free(p: *mut Node<Item>) {
        ptr::drop_in_place(p); // We could just implement drop here, but this is cleaner.
        dealloc(p as *mut u8, Self::layout_with_height((*p).height));
    }

    fn content_slice(&self) -> &[Item] {
        let slice = &self.items[..self.num_items as usize];
        unsafe { maybeinit_slice_get_ref(slice) }
    }

    // The height is at least 1, so this is always valid.
    fn first_skip_entry<'a>(&self) -> &'a SkipEntry<Item> {
        unsafe { &*self.nexts.as_ptr() }
    }

    fn first_skip_entry_mut<'a>(&mut self) -> &'a mut SkipEntry<Item> {
        unsafe { &mut *self.nexts.as_mut_ptr() }
    }

    // TODO: Rename to len() ?
    fn get_userlen(&self) -> usize {
        self.first_skip_entry().skip_usersize
    }
    
    fn get_next_ptr(&self) -> *mut Node<Item> {
        self.first_skip_entry().node
    }

    pub(crate) fn iter(&self, local_index: usize) -> ListItemIter<Item> {
        ListItemIter {
            node: Some(&self),
            index: local_index,
            remaining_items: None
        }
    }
}

impl<Item: ListItem> Drop for Node<Item> {
    fn drop(&mut self) {
        for item in &mut self.items[0..self.num_items as usize] {
            // Could instead call assume_init() on each item but this is
            // friendlier to the optimizer.
            unsafe { ptr::drop_in_place(item.as_mut_ptr()); }
        }
    }
}

struct NodeIter<'a, Item: ListItem>(Option<&'a Node<Item>>);
impl<'a, Item: ListItem> Iterator for NodeIter<'a, Item> {
    type Item = &'a Node<Item>;

    fn next(&mut self) -> Option<&'a Node<Item>> {
        let prev = self.0;
        if let Some(n) = self.0 {
            *self = NodeIter(unsafe { n.get_next_ptr().as_ref() });
        }
        prev
    }
}

/// This is a set of pointers with metadata into a location in the list needed
/// to skip ahead, delete and insert in items. A cursor is reasonably heavy
/// weight - we fill in and maintain as many entries as the height of the list
/// dictates.
///
/// This is not needed for simply iterating sequentially through nodes and data.
/// For that look at NodeIter.
///
/// Note most/all methods using cursors are unsafe. This is because cursors use
/// raw mutable pointers into the list, so when used the following rules have to
/// be followed:
///
/// - Whenever a write happens (insert/remove/replace), any cursor not passed to
///   the write function is invalid.
/// - While a cursor is held the SkipList struct should be considered pinned and
///   must not be moved or deleted
#[derive(Copy, Clone)]
pub(crate) struct Cursor<Item: ListItem> {
    /// The global user position of the cursor in the entire list. This is used
    /// for when the max seen height increases, so we can populate previously
    /// unused entries in the cursor and in the head node.
    ///
    /// This field isn't strictly necessary - earlier versions tacked this on to
    /// the last item in entries... I'm still not sure the cleanest way to do
    /// this.
    pub(super) userpos: usize,

    /// When the userpos of an entry is 0 (totally valid and useful), a cursor
    /// becomes ambiguous with regard to where exactly its pointing in the
    /// current entry. This is used to resolve that ambiguity.
    pub(super) local_index: usize,

    pub(super) entries: [SkipEntry<Item>; MAX_HEIGHT],

    // TODO: The cursor can't outlive the skiplist, but doing this makes it
    // tricky to pass cursors around in the Skiplist type. There's probably a
    // way out of this mess, but I'm not good enough at rust to figure it out.
    // _marker: PhantomData<&'a SkipList<C>>,
}
