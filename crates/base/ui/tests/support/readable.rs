// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages as snapshots hold them. Test modules of several crates include this
//! file by its path.

/// The page without the content of styles, scripts, data and charts, which are long and
/// have tests of their own, and without the version; each block begins a line.
pub fn readable(page: &str) -> String {
    let mut page = page.to_owned();
    for element in ["style", "script", "svg"] {
        let (begin, end) = (format!("<{element}"), format!("</{element}>"));
        let mut from = 0;
        while let Some(at) = page[from..].find(&begin) {
            let content = from + at + page[from + at..].find('>').unwrap() + 1;
            from = content + page[content..].find(&end).unwrap();
            page.replace_range(content..from, "");
            from = content;
        }
    }
    let blocks = "html head meta title style script body header h1 h2 h3 p div section details \
                  figure figcaption table tr ul li dl dt footer svg";
    for block in blocks.split(' ') {
        for end in [' ', '>'] {
            page = page.replace(&format!("<{block}{end}"), &format!("\n<{block}{end}"));
        }
    }
    let version = concat!("sandbag ", env!("CARGO_PKG_VERSION"));
    page.replace(version, "sandbag VERSION")
}
