    // TODO: This is just for debugging. Do not export this.
    pub fn print(&self) where Item: std::fmt::Debug {
        println!("items: {}\tuserlen: {}, height: {}", self.num_items, self.len_user(), self.head.height);

        print!("HEAD:");
        for s in self.head.nexts() {
            print!(" |{} ", s.skip_usersize);
        }
        println!();

        use std::collections::HashMap;
        let mut ptr_to_id = HashMap::new();
        // ptr_to_id.insert(std::ptr::null(), usize::MAX);
        for (i, node) in self.node_iter().enumerate() {
            print!("{}:", i);
            ptr_to_id.insert(node as *const _, i);
            for s in node.nexts() {
                print!(" |{} ", s.skip_usersize);
            }
            print!("      : {:?}", node.content_slice());
            if let Some(id) = ptr_to_id.get(&(node.parent as *const _)) {
                print!(" (parent: {})", id);
            }
            print!(" (pointer: {:?})", node as *const _);

            println!();
        }
    }
}



impl<Item: ListItem, N: NotifyTarget<Item>> SkipList<Item, N> {
    pub fn eq_list<Rhs>(&self, other: &[Rhs]) -> bool where Item: PartialEq<Rhs> {
        let mut pos = 0;
        let other_len = other.len();

        for node in self.node_iter() {
            let my_data = node.content_slice();
            let my_len = my_data.len();

            if pos + my_len > other_len || my_data != &other[pos..pos + my_data.len()] {
                return false
            }
            pos += my_data.len();
        }

        pos == other_len
    }
}

impl<Item: ListItem, N: NotifyTarget<Item>> Drop for SkipList<Item, N> {
    fn drop(&mut self) {
        let mut node = self.head.first_skip_entry().node;
        unsafe {
            while !node.is_null() {
                let next = (*node).first_skip_entry().node;
                Node::free(node);
                node = next;
            }
        }
    }
}


// Only if there's no notification target.
impl<I, Item: ListItem> From<I> for SkipList<Item> where I: ExactSizeIterator<Item=Item> {
    fn from(iter: I) -> SkipList<Item> {
        SkipList::new_from_iter(iter)
    }
}

// Needs me to relax the ExactSizeIterator constraint on insert.
// impl<Item: ListItem> iter::FromIterator<Item> for SkipList<Item> {
//     fn from_iter<T: IntoIterator<Item = Item>>(iter: T) -> Self {
//         SkipList::new_from_iter(iter)
//     }
// }

impl<Item: ListItem, N: NotifyTarget<Item>> Into<Vec<Item>> for &SkipList<Item, N> where Item: Copy {
    fn into(self) -> Vec<Item> {
        let mut content: Vec<Item> = Vec::with_capacity(self.num_items);

        for node in self.node_iter() {
            content.extend(node.content_slice().iter());
        }

        content
    }
}

impl<Item: ListItem, N: NotifyTarget<Item>> fmt::Debug for SkipList<Item, N> where Item: fmt::Debug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<Item: ListItem, N: NotifyTarget<Item>> Default for SkipList<Item, N> {
    fn default() -> Self {
        SkipList::new()
    }
}


pub struct ListItemIter<'a, Item: ListItem> {
    node: Option<&'a Node<Item>>,
    index: usize,
    remaining_items: Option<usize> // For size_hint, if known.
}

impl<'a, Item: ListItem> Iterator for ListItemIter<'a, Item> {
    type Item = &'a Item;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(node) = self.node {
            let current = &node.items[self.index];
            self.index += 1;
            if self.index == node.num_items as usize {
                self.index = 0;
                self.node = unsafe { node.get_next_ptr().as_ref() };
            }

            Some(unsafe { &*current.as_ptr() })
        } else { None }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if let Some(r) = self.remaining_items {
            (r, Some(r))
        } else {
            (0, None)
        }
    }
