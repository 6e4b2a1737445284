package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"conclave/engine/llm"
)

// Options configure a Client.
type Options struct {
	BaseURL string // http or https, up to and including /v1
	APIKey  string // sent to BaseURL only; empty sends no Authorization header
	Model   string

	// Params join the request's top level as they are, such as temperature. What
	// the client itself decides (see New) cannot be set by them, except stream: a
	// boolean, true if it is missing.
	Params map[string]any

	// HTTPClient carries the requests; nil means a client with sensible
	// timeouts. Its redirect policy is not used: redirects are not followed.
	HTTPClient *http.Client

	// Price is what one call costs, in US dollars, by what the server counted of it;
	// nil if that is not known. What the server itself says of a cost comes first.
	Price func(llm.Usage) float64

	// Waiting is told for what a call waits before it is tried again, and what it
	// returns is called when that is over; nil for nobody.
	Waiting func(ctx context.Context, why string) (over func())

	// Refusals are shared by clients that come and go; nil for none.
	Refusals *Refusals
}

// Client is one model at one provider. It is safe for concurrent use.
type Client struct {
	chat    sdk.ChatCompletionService
	host    string
	key     string
	model   string
	params  map[string]any
	price   func(llm.Usage) float64
	waiting func(context.Context, string) func()

	server   server
	wishes   parts
	refusals *Refusals
	blind    *Refusals // this client's own
}

// New checks the options and makes a Client. It does not touch the network.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.BaseURL)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, errors.New("base_url of the model is not an http(s) URL; give one such as https://api.openai.com/v1")
	case base.User != nil:
		return nil, fmt.Errorf("base_url for %s contains credentials; name the key's variable in api_key_env instead", base.Host)
	case o.Model == "":
		return nil, fmt.Errorf("no model named for %s; set model", base.Host)
	}
	for _, name := range reserved() {
		if _, ok := o.Params[name]; ok {
			return nil, fmt.Errorf("params of model %s contain %q, which is not a parameter to set; remove it", o.Model, name)
		}
	}
	if _, err := json.Marshal(o.Params); err != nil {
		return nil, fmt.Errorf("params of model %s cannot be written as JSON: %w", o.Model, err)
	}
	params := maps.Clone(o.Params)
	streams := true
	if wish, ok := params["stream"]; ok {
		if streams, ok = wish.(bool); !ok {
			return nil, fmt.Errorf("stream in params of model %s is neither true nor false", o.Model)
		}
		delete(params, "stream")
	}
	return &Client{
		chat: sdk.NewChatCompletionService(
			option.WithBaseURL(o.BaseURL),
			option.WithAPIKey(o.APIKey),
			option.WithMaxRetries(0),
			option.WithHTTPClient(httpClient(o.HTTPClient)),
		),
		host: base.Host, key: o.APIKey, model: o.Model, params: params, price: o.Price, waiting: o.Waiting,
		server: server{o.BaseURL, o.Model}, wishes: parts{stream: streams, usage: streams, thoughts: true, images: true},
		refusals: cmp.Or(o.Refusals, &Refusals{}), blind: &Refusals{},
	}, nil
}

// reserved are the request fields that belong to the client. Several choices
// would change the form of the response.
func reserved() []string {
	return []string{"model", "messages", "tools", "stream_options", "n"}
}

// httpClient returns a client that follows no redirect: one that leaves the
// provider must not take the key along, and a POST redirected is a wrong
// base_url, which is better said than guessed around.
func httpClient(given *http.Client) *http.Client {
	client := http.Client{}
	if given != nil {
		client = *given
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		client.Transport = t.Clone()
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// Generate makes one model call, retried for up to about a minute while the
// provider is limiting, overloaded or out of reach. Errors are *llm.Error,
// except that the end of ctx is returned as its cause; it closes the connection
// at once, so that the server can stop. A reply that was paid for but is of no
// use is an error with the reply's usage beside it, and calls that were paid for
// on the way to a good reply are in that reply's usage.
func (c *Client) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	return c.retrying(ctx, func() (llm.Reply, error) { return c.attempt(ctx, req) })
}

// attempt makes a request, and makes it again at once without the part of it that
// the server refuses and that it can do without.
func (c *Client) attempt(ctx context.Context, req llm.Request) (llm.Reply, error) {
	wished := c.asks()
	var spent llm.Usage // a stream can begin before it is refused
	for asked := wished; ; {
		reply, err := c.call(ctx, c.request(req, asked))
		spent = spent.Add(c.charged(reply.Usage))
		reply.Usage = spent
		part := asked.refusedBy(err, req)
		if part != (parts{}) {
			asked = asked.less(part)
			continue
		}
		if err == nil {
			c.learn(wished.less(asked))
		}
		return reply, err
	}
}

// charged is a call's usage with its cost, if that is known. A server that counts
// no tokens has no known cost.
func (c *Client) charged(u llm.Usage) llm.Usage {
	if u.TotalUSD == nil && c.price != nil && u.InputTokens+u.OutputTokens > 0 {
		usd := c.price(u)
		u.TotalUSD = &usd
	}
	return u
}

// call is one HTTP request.
func (c *Client) call(ctx context.Context, params sdk.ChatCompletionNewParams) (llm.Reply, error) {
	limited, w, release := watched(ctx)
	defer release()

	var res *http.Response
	_, err := c.chat.New(limited, params, option.WithMiddleware(w.over), option.WithResponseBodyInto(&res))
	if res != nil && res.Body != nil {
		defer res.Body.Close()
	}
	var reply llm.Reply
	arrived := res != nil && (err == nil || res.StatusCode >= 400)
	switch {
	case arrived && (res.StatusCode < 200 || res.StatusCode > 299):
		// The SDK has put the body of an error status back; a read that failed leaves it empty.
		said, _ := io.ReadAll(res.Body)
		err = c.refused(res.StatusCode, res.Header, said)
	case err == nil:
		reply, err = c.reply(res.Header, res.Body, w)
	}
	var failed *llm.Error
	switch {
	case err == nil:
		return reply, nil
	case ctx.Err() != nil:
		return llm.Reply{}, fmt.Errorf("calling model %s at %s: %w", c.model, c.host, context.Cause(ctx))
	case errors.As(err, &failed):
		return reply, err
	case errors.Is(err, errTooLarge):
		return reply, c.unusable(err.Error(), err)
	}
	if s, ok := stalled(limited); ok {
		return reply, c.failure(llm.Network, 0, s.what, "use a faster model or server", s)
	}
	return reply, c.unreached(err)
}
