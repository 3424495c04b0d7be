//! Tables: a line for each row. Pure: no I/O.

use super::{Markup, Writer};

/// Most columns of a table that the line below its head has.
const MAX_COLUMNS: usize = 64;

/// An open table.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The tables that are open inside a cell.
    pub(super) inner: u32,
    pub(super) is_in_cell: bool,
    is_in_row: bool,
    rows: u32,
    /// The cells of the row so far.
    cells: usize,
}

impl Writer<'_> {
    pub(super) fn nest_table(&mut self) {
        if let Some(table) = &mut self.table {
            table.inner += 1;
            self.space = true;
        }
    }

    pub(super) fn open_row(&mut self) {
        self.close_row();
        let Some(table) = &mut self.table else { return self.block(1) };
        (table.is_in_row, table.cells) = (true, 0);
        let breaks = if table.rows == 0 { 2 } else { 1 };
        self.breaks = self.breaks.max(breaks);
        // Elements around rows stand apart, but the rows of a table follow each other.
        self.breaks = self.breaks.min(breaks);
        self.write("|");
    }

    pub(super) fn open_cell(&mut self) {
        if self.table.is_none() {
            self.space = true;
            return;
        }
        if self.table.as_ref().is_some_and(|table| !table.is_in_row) {
            self.open_row();
        }
        self.close_cell();
        if let Some(table) = &mut self.table {
            table.is_in_cell = true;
            self.space = true;
        }
    }

    fn close_cell(&mut self) {
        if let Some(table) = self.table.as_mut().filter(|table| table.is_in_cell) {
            table.is_in_cell = false;
            table.cells += 1;
            self.out.push_str(" |");
            self.space = false;
        }
    }

    fn close_row(&mut self) {
        self.close_cell();
        let Some(table) = self.table.as_mut().filter(|table| table.is_in_row) else { return };
        table.is_in_row = false;
        table.rows += 1;
        let (rows, cells) = (table.rows, table.cells.min(MAX_COLUMNS));
        self.breaks = 1;
        if rows == 1 && cells > 0 && self.markup == Markup::Markdown {
            self.write(&format!("|{}", " --- |".repeat(cells)));
            self.breaks = 1;
        }
    }

    pub(super) fn close_table(&mut self, name: &[u8]) {
        match (name, &mut self.table) {
            (_, None) => {}
            (b"table", Some(table)) if table.inner > 0 => {
                table.inner -= 1;
                self.space = true;
            }
            (_, Some(table)) if table.inner > 0 => self.space = true,
            (b"table", Some(_)) => {
                self.close_row();
                self.table = None;
                self.breaks = self.breaks.max(2);
            }
            (b"tr", Some(_)) => self.close_row(),
            (_, Some(_)) => self.close_cell(),
        }
    }
}
