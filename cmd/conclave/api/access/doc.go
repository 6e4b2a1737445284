// Package access decides who may use an HTTP server of conclave and how many requests each caller may send.
//
// New makes a Gate. Its Handler checks each request before the server's own handlers see it:
//
//   - On loopback the Host must name this machine, so that a web page that resolves its
//     own name to 127.0.0.1 is refused.
//   - An Origin must be that of the server: pages of other sites cannot send requests.
//   - With a file of keys (Keys) a request needs one, as a bearer token or, from a browser, as the password
//     of basic authentication. Any other address than loopback requires the file.
//   - Each key has a limit of requests a minute.
//
// From returns the Caller of an admitted request: its name, its teams and its budget.
//
// refusal.go writes errors in the form of OpenAI's API. Start with Gate.Handler in line.go.
package access
