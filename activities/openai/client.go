package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"conclave/engine/llm"
	"conclave/engine/redact"
)

// Options configures a Client.
type Options struct {
	BaseURL string // http or https, up to and including /v1
	APIKey  string // sent to BaseURL only; empty sends no Authorization header
	Model   string

	KeyHeader string // the header that carries APIKey unchanged; empty for a bearer token in Authorization

	// Params is added unchanged to the top level of requests. Its value stream is a boolean; the
	// default is true.
	Params map[string]any

	NoStreamOptions bool // whether requests omit stream_options
	ShortCallIDs    bool // send IDs of tool calls as nine letters and digits

	// SilentTimeout bounds the time until the first content of a reply; 0 means ten minutes.
	SilentTimeout time.Duration

	// HTTPClient sends the requests; redirects are never followed. If nil, http.DefaultClient is
	// used.
	HTTPClient *http.Client

	// Price returns the cost of a usage in US dollars if the server does not state it. If nil, the
	// price is unknown.
	Price func(llm.Usage) float64

	// Waiting is called before each wait with its reason and its end, which is zero if unknown. The
	// last over that it returned is called when a later try is accepted or has lasted some seconds,
	// or when the call has failed. Waiting may be nil.
	Waiting func(ctx context.Context, failed *llm.Error, until time.Time) (over func())

	// Replying is called when a response without an error begins. It may be nil.
	Replying func(ctx context.Context)

	// Patience bounds the retries while the server is away. responded is true if the server has
	// sent a status. If nil, the bound is a minute.
	Patience func(ctx context.Context, responded bool) time.Duration

	// Refusals and Outages may be shared with other clients. If nil, the client has its own.
	Refusals *Refusals
	Outages  *Outages
}

// Client is one model at one provider. It is safe for concurrent use.
type Client struct {
	chat     sdk.ChatCompletionService
	models   sdk.ModelService
	host     string
	origin   string // scheme and host of the address
	key      string
	redactor *redact.Redactor // removes the key from errors
	model    string
	params   map[string]any
	shortIDs bool
	silent   time.Duration
	price    func(llm.Usage) float64
	waiting  func(context.Context, *llm.Error, time.Time) func()
	replying func(context.Context)
	patience func(context.Context, bool) time.Duration
	outages  *Outages

	server   server
	wanted   parts
	refusals *Refusals
	images   *Refusals // refusals of images; not shared, because one may concern a single image
}

// New validates the options and returns a Client. It does not use the network.
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
	params, wanted, err := o.parameters()
	if err != nil {
		return nil, err
	}
	options := []option.RequestOption{
		option.WithBaseURL(o.BaseURL),
		o.authentication(),
		option.WithMaxRetries(0),
		option.WithHTTPClient(httpClient(o.HTTPClient)),
	}
	return &Client{
		chat: sdk.NewChatCompletionService(options...), models: sdk.NewModelService(options...),
		shortIDs: o.ShortCallIDs, silent: cmp.Or(o.SilentTimeout, silentTimeout),
		host: base.Host, origin: base.Scheme + "://" + base.Host, key: o.APIKey, redactor: redactor(o.APIKey), model: o.Model, params: params, price: o.Price, waiting: o.Waiting, replying: o.Replying,
		server: server{o.BaseURL, o.Model}, wanted: wanted,
		refusals: cmp.Or(o.Refusals, &Refusals{}), images: &Refusals{},
		patience: o.Patience, outages: cmp.Or(o.Outages, &Outages{}),
	}, nil
}

// authentication sends the key in the header that the server expects.
func (o Options) authentication() option.RequestOption {
	if o.KeyHeader == "" || o.APIKey == "" {
		return option.WithAPIKey(o.APIKey)
	}
	return option.WithHeader(o.KeyHeader, o.APIKey)
}

// parameters returns the params without stream, and the optional parts to send in requests.
func (o Options) parameters() (map[string]any, parts, error) {
	wanted := streamPart | usagePart | thoughtsPart | imagesPart | formPart | toolsPart
	if o.NoStreamOptions {
		wanted &^= usagePart
	}
	switch value := o.Params["stream"].(type) {
	case nil:
	case bool:
		if !value {
			wanted &^= streamPart | usagePart
		}
	default:
		return nil, 0, fmt.Errorf("stream in params of model %s is neither true nor false", o.Model)
	}
	params := maps.Clone(o.Params)
	delete(params, "stream")
	return params, wanted, nil
}

// httpClient returns a client that does not follow redirects, because the key must not be sent to
// another host.
func httpClient(given *http.Client) *http.Client {
	client := *cmp.Or(given, http.DefaultClient)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// Generate makes one model call. While the provider limits requests, is overloaded or cannot be
// reached, Generate retries for about a minute. Its errors are *llm.Error or the cause of ctx. The
// returned usage includes failed requests, even if there is an error.
func (c *Client) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	w := &wait{waiting: c.waiting}
	defer w.end()
	away := func(failed *llm.Error) { w.begin(ctx, failed, time.Time{}) }
	return c.retrying(ctx, w, func() (llm.Reply, error) {
		return c.outages.call(ctx, c, away, func(ctx context.Context, responded func(status int)) (llm.Reply, error) {
			w.try()
			return c.send(ctx, req, func(status int) {
				if status < 400 {
					w.end()
					if c.replying != nil {
						c.replying(ctx)
					}
				}
				responded(status)
			})
		})
	})
}

// send makes a request. If the server refuses an optional part, send repeats the request
// immediately without that part.
func (c *Client) send(ctx context.Context, req llm.Request, responded func(status int)) (llm.Reply, error) {
	wanted := c.wanted &^ c.refusals.of(c.server) &^ c.images.of(c.server)
	var spent llm.Usage // includes streams that were refused after they had begun
	for sent := wanted; ; {
		reply, err := c.call(ctx, c.request(req, sent), req.MaxReply, responded)
		spent = spent.Add(c.withCost(reply.Usage))
		reply.Usage = spent
		part := sent.refusedBy(err, req)
		if part != 0 {
			sent &^= part
			continue
		}
		if err == nil {
			c.remember(wanted &^ sent)
		}
		return reply, err
	}
}

// reporting returns a middleware that calls responded with the status of each response.
func reporting(responded func(status int)) option.Middleware {
	return func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		res, err := next(req)
		if err == nil {
			responded(res.StatusCode)
		}
		return res, err
	}
}

// withCost adds the cost to a usage if the price and the tokens are known.
func (c *Client) withCost(u llm.Usage) llm.Usage {
	if u.TotalUSD == nil && c.price != nil && u.InputTokens+u.OutputTokens > 0 {
		usd := c.price(u)
		u.TotalUSD = &usd
	}
	return u
}

// depthHeader tells a model served by `conclave serve` at which depth its team is asked.
const depthHeader = "X-Conclave-Depth"

// call makes one HTTP request. It calls responded when the headers of the response arrive.
func (c *Client) call(ctx context.Context, params sdk.ChatCompletionNewParams, most int, responded func(status int)) (llm.Reply, error) {
	limited, w, release := newWatchdog(ctx, c.silent)
	defer release()

	var res *http.Response
	depth := option.WithHeader(depthHeader, strconv.Itoa(llm.Depth(ctx)+1))
	_, err := c.chat.New(limited, params, depth, option.WithMiddleware(w.middleware, reporting(responded)), option.WithResponseBodyInto(&res))
	if res != nil && res.Body != nil {
		defer res.Body.Close()
	}
	var reply llm.Reply
	arrived := res != nil && (err == nil || res.StatusCode >= 400)
	switch {
	case arrived && (res.StatusCode < 200 || res.StatusCode > 299):
		// The SDK has read and restored the body of an error. If that failed, the body is empty.
		body, _ := io.ReadAll(res.Body)
		err = c.refused(res.StatusCode, res.Header, body)
	case err == nil:
		reply, err = c.reply(res.Header, res.Body, most, w, llm.Said(ctx))
	}
	failed, classified := errors.AsType[*llm.Error](err)
	stall, stalled := errors.AsType[*stallError](context.Cause(limited))
	switch {
	case err == nil:
		return reply, nil
	case ctx.Err() != nil:
		return llm.Reply{}, fmt.Errorf("calling model %s at %s: %w", c.model, c.host, context.Cause(ctx))
	case classified:
	case errors.Is(err, errTooLarge):
		failed = c.unusable(err.Error(), err)
		failed.Overlong = most > 0
	case stalled:
		failed = c.failure(llm.Network, 0, stall.what, stall.remedy, stall)
	default:
		failed = c.unreached(err, res != nil)
	}
	if failed.Status == 0 && res != nil {
		failed.Status = res.StatusCode // the server responded but ended the connection
	}
	return reply, failed
}
