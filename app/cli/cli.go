// Package cli holds every command of the godwit binaries. Data goes to
// standard output; progress and logs go to standard error. Exit codes: 0 done,
// 1 failed, 2 wrong use, 130 interrupted.
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/schollz/progressbar/v3"

	"godwit/app/config"
	"godwit/app/device"
	"godwit/app/ledger"
	"godwit/app/telemetry"
	"godwit/app/tune"
	"godwit/engine"
)

// root is the command line.
type root struct {
	config.App
	Policy string `name:"policy" placeholder:"FILE" help:"Policy file (TOML): lock settings. It has the form of config.toml."`

	Chat       chatCmd       `cmd:"" aliases:"run" help:"Chat with a model, or send it one message."`
	Template   templateCmd   `cmd:"" help:"Render messages from standard input with a chat template."`
	Pull       pullCmd       `cmd:"" help:"Download a model into the library."`
	List       listCmd       `cmd:"" aliases:"ls" help:"List the library."`
	Show       showCmd       `cmd:"" help:"Show a model's metadata, template, licence and cache plan."`
	Tune       tuneCmd       `cmd:"" help:"Show or change the settings of one model."`
	Rm         rmCmd         `cmd:"" help:"Remove a model from the library."`
	Tokenize   tokenizeCmd   `cmd:"" help:"Convert text from standard input to token ids."`
	Detokenize detokenizeCmd `cmd:"" help:"Convert token ids to text."`
	Generate   generateCmd   `cmd:"" help:"Continue a list of tokens."`
	Logits     logitsCmd     `cmd:"" help:"Write the logits after a list of tokens as raw float32."`
	Vision     visionCmd     `cmd:"" help:"Write the rows that a projector computes from pictures, as raw float32."`
	Embed      embedCmd      `cmd:"" help:"Compute the embedding of a text from standard input, or of tokens. A reranker gives a score instead."`
	Serve      serveCmd      `cmd:"" help:"Serve the API on localhost, in the dialects of OpenAI, Anthropic, Ollama and llama-server."`
	Bench      benchCmd      `cmd:"" help:"Measure speed, as llama-bench does."`
	BenchServe benchServeCmd `cmd:"" name:"bench-serve" help:"Drive the API with several clients and print throughput and latencies as JSON."`
	Eval       evalCmd       `cmd:"" help:"Measure what a cache type costs in quality."`
	Quantize   quantizeCmd   `cmd:"" help:"Write a copy of a model with smaller matrices."`
	KV         kvCmd         `cmd:"" name:"kv" help:"Cache types: list, memory plan, calibration."`
	Key        keyCmd        `cmd:"" help:"Add, list or revoke named API keys of the server, with limits."`
	Cache      cacheCmd      `cmd:"" help:"List or delete stored prompts, which need not be computed again."`
	Device     deviceCmd     `cmd:"" help:"List the devices of this machine and check that they compute correctly."`
	Version    versionCmd    `cmd:"" help:"Print version, build and processor."`
}

// run is the environment of a command.
type run struct {
	ctx    context.Context
	in     io.Reader
	out    *bufio.Writer
	screen bool // whether out is a terminal
	err    io.Writer
	log    *slog.Logger
	page   fs.FS
	home   config.Folders
	file   *config.File
	window func(*run) error                         // opens the window; nil in the headless binary
	hide   func(secret string)                      // keeps a secret out of the log
	flags  map[string]bool                          // names of the flags on the command line
	memory *engine.Memory                           // memory of the loaded models
	drawn  *atomic.Pointer[progressbar.ProgressBar] // progress bar on the terminal
	tuned  func() *tune.Book                        // settings of single models

	env       config.Env
	app       config.App                                                        // settings, including flags
	problems  *config.Problems                                                  // problems of the settings file; nil without any
	policies  map[string]bool                                                   // paths of the policy files that were read
	overruled *config.Problems                                                  // settings of the file that a policy locks to other values; nil without any
	level     func(level string) error                                          // changes the log level
	logFile   string                                                            // path of the log file; empty without one
	apart     func(ctx context.Context, backend string) (device.Verdict, error) // checks a backend in another process; nil if there is no such check
}

// Main runs a command line and returns the exit code. page is the page's built
// files.
func Main(page fs.FS, args []string) int {
	return main(page, args, nil)
}

// WithWindow is Main for the binary that can open a window. It opens the window
// if there is no command.
func WithWindow(page fs.FS, args []string, window Window) int {
	return main(page, args, func(r *run) error { return r.openWindow(window) })
}

func main(page fs.FS, args []string, window func(*run) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &run{ctx: ctx, in: os.Stdin, out: bufio.NewWriter(os.Stdout), screen: terminal(os.Stdout), err: os.Stderr, page: page, window: window, env: os.LookupEnv}
	r.apart = r.checkApart
	code := r.main(args)
	if err := r.out.Flush(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "godwit: writing the output:", err)
		return 1
	}
	return code
}

// usage is an error in how a command was called. Its exit code is 2.
type usage struct{ error }

func (r *run) main(args []string) int {
	r.drawn = new(atomic.Pointer[progressbar.ProgressBar])
	if r.hide == nil {
		r.hide = func(string) {}
	}
	if r.env == nil {
		r.env = os.LookupEnv
	}
	if err := r.settings(); err != nil {
		return r.fail(err)
	}
	shared := ledger.New(filepath.Join(r.home.Cache, "memory"))
	defer shared.Close()
	r.memory = &engine.Memory{Ledger: shared}
	cmd := root{App: config.Default().App}
	parser, err := kong.New(&cmd,
		kong.Name("godwit"),
		kong.Vars{"quantize_types": quantizeTypes()},
		kong.Vars(config.Vars()),
		kong.Description(r.description()),
		kong.Writers(r.out, r.err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ValueFormatter(helpText),
		kong.Resolvers(kong.ResolverFunc(r.resolve)),
		kong.UsageOnError(),
		kong.Exit(func(code int) { panic(exit(code)) }),
	)
	if err != nil {
		panic("cli: " + err.Error()) // only an invalid tag in this package causes an error
	}
	return r.parse(parser, &cmd, args)
}

// description is the text before the list of commands in the help.
func (r *run) description() string {
	text := "Runs language models (GGUF) on this machine, with long contexts in little memory."
	if r.window != nil {
		text += " Without a command it opens the window."
	}
	return text + "\n\nSettings come from flags, then from environment variables such as GODWIT_CTX_SIZE, then from " +
		filepath.Join(r.home.Config, "config.toml") + ". Policy files lock settings: " + config.SystemPolicy() +
		", if it exists, and those in --policy and GODWIT_POLICY. Models, chats and measurements are in " +
		r.home.Data + ". GODWIT_HOME=FOLDER moves all of them to that folder."
}

// exit carries an exit code out of kong's parser, for example after help.
type exit int

func (r *run) parse(parser *kong.Kong, cmd *root, args []string) (code int) {
	defer func() {
		if e := recover(); e != nil {
			c, ok := e.(exit)
			if !ok {
				panic(e)
			}
			code = int(c)
		}
	}()
	args = r.spellings(parser, args)
	if len(args) == 0 {
		if r.window != nil {
			return r.fail(r.window(r))
		}
		args = []string{"--help"}
	}
	ctx, err := parser.Parse(args)
	if err == nil {
		err = r.unlocked(ctx)
	}
	if err == nil {
		err = validate(reflect.ValueOf(cmd), ctx.Selected())
	}
	if err != nil {
		fmt.Fprintf(r.err, "godwit: %v\nTry: godwit --help, or godwit %s --help\n", err, command(ctx, err))
		return 2
	}
	log, err := telemetry.OpenLog(telemetry.LogOptions{Level: cmd.LogLevel, Terminal: r.err, Before: r.clearBar})
	if err != nil {
		return r.fail(err)
	}
	r.hide = log.Hide
	r.log, r.level, r.app, r.flags = log.Logger, log.SetLevel, cmd.App, map[string]bool{}
	for _, p := range ctx.Path {
		if p.Flag != nil && !p.Resolved {
			r.flags[p.Flag.Name] = true
		}
	}
	return r.fail(ctx.Run(r))
}

// given reports whether the command line has any of these flags.
func (r *run) given(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return r.flags[name] })
}

// command returns the path of the called command, or COMMAND if none was called.
func command(ctx *kong.Context, err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) {
		ctx = parse.Context
	}
	if ctx != nil && ctx.Selected() != nil {
		var names []string
		for n := ctx.Selected(); n.Type == kong.CommandNode; n = n.Parent {
			names = append([]string{n.Name}, names...) // kong's own path also contains the aliases
		}
		return strings.Join(names, " ")
	}
	return "COMMAND"
}

// validate checks the bounds of every settings section that a command or the root
// embeds. kong validates only the command itself, and a command that embeds several
// sections has no Validate method.
func validate(root reflect.Value, selected *kong.Node) error {
	sections := []reflect.Value{root.Elem()}
	if selected != nil {
		sections = append(sections, selected.Target)
	}
	for len(sections) > 0 {
		v := sections[0]
		sections = sections[1:]
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.Anonymous || f.Type.Kind() != reflect.Struct {
				continue
			}
			if v.Field(i).CanInterface() {
				if section, ok := v.Field(i).Addr().Interface().(interface{ Validate() error }); ok {
					if err := section.Validate(); err != nil {
						return err
					}
					continue
				}
			}
			sections = append(sections, v.Field(i))
		}
	}
	return nil
}

// helpText adds the choices and the default to the help of a flag.
func helpText(v *kong.Value) string {
	text := kong.DefaultHelpValueFormatter(v)
	if v.Enum != "" {
		text += " One of " + strings.ReplaceAll(v.Enum, ",", ", ") + "."
	}
	if v.Flag != nil {
		f, known := config.Find(v.Flag.Name)
		if f.Dash != "" {
			text += " Also -" + f.Dash + "."
		}
		if known && v.IsBool() && v.Default == "true" {
			text += " Default: on."
		}
	}
	if v.Flag != nil && v.Flag.PlaceHolder != "" && v.Default != "" && !v.IsBool() {
		text += " Default: " + v.Default + "."
	}
	return text
}

// fail prints an error and returns the exit code.
func (r *run) fail(err error) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, context.Canceled) && r.ctx.Err() != nil {
		fmt.Fprintln(r.err, "godwit: interrupted")
		return 130
	}
	fmt.Fprintln(r.err, "godwit:", printable(err.Error()))
	var u usage
	if errors.As(err, &u) {
		return 2
	}
	return 1
}

// settings opens config.toml. It reports settings with errors and uses the others.
func (r *run) settings() error {
	var err error
	if r.home, err = config.UserFolders(os.LookupEnv); err != nil {
		return err
	}
	r.file, err = config.Open(filepath.Join(r.home.Config, "config.toml"))
	var problems *config.Problems
	if errors.As(err, &problems) && r.file != nil {
		fmt.Fprintln(r.err, "godwit:", problems)
		r.problems = problems
		err = nil
	}
	r.tuned = sync.OnceValue(func() *tune.Book {
		return tune.Open(filepath.Join(r.home.Data, tune.FileName), tune.Options{Given: r.given, Locked: r.file.Refused, Log: r.log})
	})
	if err != nil {
		return err
	}
	return r.standingPolicies()
}

// resolve returns the value of a missing flag to kong, from the environment or the
// file.
func (r *run) resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	_ = r.givenPolicies(ctx) // unlocked returns the error
	value, _, err := r.file.Lookup(flag.Name, os.LookupEnv)
	return value, err
}
