// Package web serves the pages of sessions and of pipeline and scenario runs, and keeps them up to date. An
// open page receives changes as server-sent events. Each part of a page has the version of its last change,
// so a reader that reconnects gets each newer part once. The items of long lists are separate parts.
//
// Requests that change a run are forms with a token from the page's own origin. They send the
// same updates as the commands. An access.Gate in front of every handler refuses other host
// names and the pages of other sites.
//
// Start with Handler.ServeHTTP in handler.go, then follow.go.
package web
