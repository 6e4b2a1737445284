package mcpserver

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/desk"
)

// instructions tell a client's model when to use the tools.
const instructions = `A team of agents answers a question, sees each other's answers, votes and decides. ` +
	`Ask it for what is worth several opinions: designs, reviews, hard bugs. An answer takes minutes: ` +
	`ask_team returns it, or after a while the session_id, with which session_result waits for it again.`

// Options configure a server.
type Options struct {
	Version  string
	ReadOnly bool // no tool starts or steers a session
	Local    bool // the client has this machine's files: its root may be a base
}

// server offers the sessions of a desk to one caller.
type server struct {
	desk  *desk.Desk
	by    access.Caller
	local bool
}

// schemas are shared by the servers of all requests.
var schemas = mcp.NewSchemaCache()

// New returns a server for a caller.
func New(d *desk.Desk, by access.Caller, o Options) *mcp.Server {
	s := server{desk: d, by: by, local: o.Local}
	out := mcp.NewServer(&mcp.Implementation{Name: "conclave", Title: "Conclave", Version: o.Version}, &mcp.ServerOptions{
		Instructions: instructions, Capabilities: &mcp.ServerCapabilities{}, SchemaCache: schemas,
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" }, // each caller has its own sessions
	})
	s.addTools(out, o.ReadOnly)
	s.addResources(out)
	return out
}

// Handler serves MCP over HTTP to callers admitted by an access.Gate. It keeps no protocol
// sessions, so several processes may serve one address.
func Handler(d *desk.Desk, o Options) http.Handler {
	return checked(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		return New(d, access.From(r.Context()), o)
	}, &mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true})) // the gate checks the host
}

// Run serves one client over standard input and output until its input ends.
func Run(ctx context.Context, d *desk.Desk, o Options, transport mcp.Transport) error {
	return New(d, access.Caller{}, o).Run(ctx, transport)
}
