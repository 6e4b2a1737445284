// Package page renders the page of a session: the decision and the reasons for it, the board, the timeline,
// the answers, steps, cost and files. The page depends only on the record. It is a single HTML document that
// contains its style, script, SVG and images and loads nothing.
//
// Everything recorded is untrusted. html/template escapes it. The Markdown of answers is rendered without raw
// HTML and sanitized. Images are shown only if their bytes are those of an image. The Content-Security-Policy
// admits only the document's own style and script, by hash.
//
// Write renders a complete page and truncates long texts to stay within the size limit. Live
// renders the parts of a page that is kept up to date; it links to the texts of steps and
// files instead of including them.
//
// Start with Write in render.go and Draw in live.go; view.go has the data of the templates.
package page
