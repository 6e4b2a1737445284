package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"conclave/engine/llm"
)

const (
	// callTimeout bounds one HTTP request. Streams are not asked for: headers
	// come only when the model has finished thinking.
	callTimeout = 10 * time.Minute

	// maxBody bounds what is read of a response, in bytes.
	maxBody = 32 << 20
)

// Options configure a Client.
type Options struct {
	BaseURL string // http or https, up to and including /v1
	APIKey  string // sent to BaseURL only; empty sends no Authorization header
	Model   string

	// Params join the request's top level as they are, such as temperature. What
	// the client itself decides (see New) cannot be set by them.
	Params map[string]any

	// HTTPClient carries the requests; nil means a client with sensible
	// timeouts. Its redirect policy is not used: redirects are not followed.
	HTTPClient *http.Client
}

// Client is one model at one provider. It is safe for concurrent use.
type Client struct {
	chat   sdk.ChatCompletionService
	host   string
	key    string
	model  string
	params map[string]any
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
	return &Client{
		chat: sdk.NewChatCompletionService(
			option.WithBaseURL(o.BaseURL),
			option.WithAPIKey(o.APIKey),
			option.WithMaxRetries(0),
			option.WithHTTPClient(httpClient(o.HTTPClient)),
			option.WithMiddleware(bounded),
		),
		host: base.Host, key: o.APIKey, model: o.Model, params: o.Params,
	}, nil
}

// reserved are the request fields that belong to the client. Streaming and
// several choices would change the form of the response.
func reserved() []string {
	return []string{"model", "messages", "tools", "stream", "stream_options", "n"}
}

// httpClient returns a client that follows no redirect: one that leaves the
// provider must not take the key along, and a POST redirected is a wrong
// base_url, which is better said than guessed around.
func httpClient(given *http.Client) *http.Client {
	client := http.Client{}
	if given != nil {
		client = *given
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.ResponseHeaderTimeout = callTimeout
		client.Transport = t
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// bounded keeps a response from filling the memory. A longer one arrives cut
// and fails as JSON, or as a stream that ended early.
func bounded(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if res != nil && res.Body != nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxBody), res.Body}
	}
	return res, err
}

// Generate makes one model call, retried for up to about a minute while the
// provider is limiting, overloaded or out of reach. Errors are *llm.Error,
// except that the end of ctx is returned as its cause. A reply that was paid
// for but is of no use is an error with the reply's usage beside it.
func (c *Client) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	params := c.request(req)
	return retrying(ctx, func() (llm.Reply, error) { return c.call(ctx, params) })
}

// call is one HTTP request.
func (c *Client) call(ctx context.Context, params sdk.ChatCompletionNewParams) (llm.Reply, error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()

	var (
		body []byte
		res  *http.Response
	)
	_, err := c.chat.New(limited, params, option.WithResponseInto(&res), option.WithResponseBodyInto(&body))
	switch {
	case err != nil && ctx.Err() != nil:
		return llm.Reply{}, fmt.Errorf("calling model %s at %s: %w", c.model, c.host, context.Cause(ctx))
	case err != nil && limited.Err() != nil:
		return llm.Reply{}, c.failure(llm.Network, 0, fmt.Sprintf("no complete response within %v", callTimeout),
			"use a faster model or server", limited.Err())
	case res == nil:
		return llm.Reply{}, c.unreached(err)
	case res.StatusCode < 200 || res.StatusCode > 299:
		if len(body) == 0 && res.Body != nil {
			// The SDK has put the body of an error status back; a read that failed leaves it empty.
			body, _ = io.ReadAll(res.Body)
		}
		return llm.Reply{}, c.refused(res.StatusCode, res.Header, body)
	case err != nil:
		return llm.Reply{}, c.unreached(err)
	}
	return c.reply(res.Header, body)
}
