impl<Item: ListItem> Cursor<Item> {
    pub(super) fn update_offsets(&mut self, height: usize, by: isize) {
        for i in 0..height {
            unsafe {
                // This is weird but makes sense when you realise the nexts in
                // the cursor are pointers into the elements that have the
                // actual pointers.
                // Also adding a usize + isize is awful in rust :/
                let skip = &mut (*self.entries[i].node).nexts_mut()[i].skip_usersize;
                *skip = skip.wrapping_add(by as usize);
            }
        }
    }

    /// Move a cursor to the start of the next node. Returns the new node (or a
    /// nullptr if this is the end of the list).
    fn advance_node(&mut self) -> *mut Node<Item> {
        unsafe {
            let SkipEntry { node: e, skip_usersize: offset } = self.entries[0];
            // offset tells us how far into the current element we are (in
            // usersize). We need to increment the offsets by the entry's
            // remaining length to get to the start of the next node.
            let advance_by = (*e).get_userlen() - offset;
            let next = (*e).get_next_ptr();
            let height = (*next).height as usize;

            for i in 0..height {
                self.entries[i] = SkipEntry {
                    node: next,
                    skip_usersize: 0
                };
            }

            for i in height..self.entries.len() {
                self.entries[i].skip_usersize += advance_by;
            }

            self.userpos += advance_by;
            self.local_index = 0;

            next
        }
    }

    pub(super) fn is_at_node_end(&self) -> bool {
        self.local_index == unsafe { (*self.here_ptr()).num_items } as usize
    }

    pub(super) fn advance_item(&mut self, height: usize) {
        if self.is_at_node_end() { self.advance_node(); }
        let usersize = unsafe { self.current_item() }.unwrap().get_usersize();

        for entry in &mut self.entries[0..height] {
            entry.skip_usersize += usersize;
        }
        self.userpos += usersize;
        self.local_index += 1;
    }

    pub(super) fn advance_by_items(&mut self, num: usize, height: usize) {
        for _ in 0..num { self.advance_item(height); }
    }

    pub(super) fn move_to_item_start(&mut self, height: usize, offset: usize) {
        for entry in &mut self.entries[0..height] {
            entry.skip_usersize -= offset;
        }
        self.userpos -= offset;
    }

    pub(super) unsafe fn prev_item<'a>(&self) -> Option<&'a Item> {
        let node = &*self.here_ptr();
        if self.local_index == 0 {
            assert_eq!(self.userpos, 0, "Invalid state: Cursor at start of node");
            None
        } else {
            debug_assert!(self.local_index <= node.num_items as usize);
            Some(&*(node.items[self.local_index - 1].as_ptr()))
        }
    }

    pub(super) unsafe fn prev_item_mut<'a>(&mut self) -> Option<&'a mut Item> {
        let node = &mut *self.here_ptr();
        if self.local_index == 0 {
            assert_eq!(self.userpos, 0);
            None
        } else {
            debug_assert!(self.local_index <= node.num_items as usize);
            Some(&mut *(node.items[self.local_index - 1].as_mut_ptr()))
        }
    }

    // Could be Option<NonNull<_>>...
    unsafe fn peek_next_node_start(&self) -> Option<*mut Item> {
        let next = (*self.here_ptr()).get_next_ptr();
        if next.is_null() { None }
        else {
            debug_assert!((*next).num_items > 0);
            Some((*next).items[0].as_mut_ptr())
        }
    }

    pub(super) unsafe fn current_item<'a>(&self) -> Option<&'a Item> {
        let node = &*self.here_ptr();
        if self.local_index < node.num_items as usize {
            // Ok - just return the current item.
            Some(&*(node.items[self.local_index].as_ptr()))
        } else {
            // Peek the first item in the next node.
            self.peek_next_node_start().map(|ptr| &*ptr)
        }
    }

    // pub(super) unsafe fn take_prev<'a>(&mut self) -> Option<Item> {
    //     let node = &*self.here_ptr();
    //     if self.local_index == 0 { None }
    //     else {
    //         debug_assert!(self.local_index < node.num_items as usize
    //         // Ok - just return the current item.
    //         Some(&*(node.items[self.local_index].as_ptr()))
    //     }
    // }

    // pub(super) unsafe fn current_item_mut<'a>(&mut self) -> Option<&'a mut C::Item> {
    //     let node = &mut *self.here_ptr();
    //     if self.local_index < node.num_items as usize {
    //         // Ok - just return the current item.
    //         Some(&mut *(node.items[self.local_index].as_mut_ptr()))
    //     } else {
    //         // Peek the first item in the next node.
    //         self.peek_next_item().map(|ptr| &mut *ptr)
    //     }
    // }

    /// Get the pointer to the cursor's current node
    pub(super) fn here_ptr(&self) -> *mut Node<Item> {
        self.entries[0].node
    }
}

impl<Item: ListItem> PartialEq for Cursor<Item> {
    /// Warning: This returns false if one cursor is at the end of a node, and
    /// the other at the start of the next node. Almost all code in this library
    /// leaves cursors at the end of nodes, so this shouldn't matter too much in
    /// practice.
    fn eq(&self, other: &Self) -> bool {
        if self.userpos != other.userpos
            || self.local_index != other.local_index {return false; }

        for i in 0..MAX_HEIGHT {
            let a = &self.entries[i];
            let b = &other.entries[i];
            if a.node != b.node || a.skip_usersize != b.skip_usersize { return false; }
        }
        true
    }
}
impl<Item: ListItem> Eq for Cursor<Item> {}

impl<Item: ListItem> fmt::Debug for Cursor<Item> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("userpos", &self.userpos)
            .field("local_index", &self.local_index)
            .finish()
    }
}

// None of the rust builtins give me what I want, which is a copy-free iterator
// to owned items in a MaybeUninit array. Eh; its easy enough to make my own.
