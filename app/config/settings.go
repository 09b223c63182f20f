// Package config holds the settings in one typed struct. Its tags are the only
// place that defines a setting's name, flag, range, default and help. The
// command line embeds its sections, the file config.toml mirrors it, and the
// page lists it through Fields.
//
// A value comes from the first of these that sets it: flag, environment, file,
// default. The command line sets the flags; Open and Settings do the rest. A policy
// file can lock settings, so that none of these changes them; see File.Lock.
//
//	file, err := config.Open(path)     // problems name their lines; file works with the rest
//	set, err := file.Settings(os.LookupEnv)
//	err = file.Save(map[string]any{"engine.ctx_size": 8192})
package config

// Settings holds all settings. Its sections are the tables of the file.
//
// The tags of a setting:
//   - toml: key in the file. In capitals after GODWIT_, it is the environment
//     variable.
//   - vars: further environment variables.
//   - name, short, placeholder, negatable, default, enum, sep, group and help:
//     also read by kong, the parser of the command line. An enum in ${} is a list
//     that another package offers.
//   - dash: llama.cpp's single-dash spelling.
//   - min and max: bounds of a number. off is one more number that is allowed,
//     and unit is what the number counts.
//   - accepted: values that are accepted because llama.cpp has them, but have no
//     effect.
//   - form: name of the form that a text must have.
//   - from: registry whose names are the choices.
//   - secret: the value is never shown.
//   - gui: help text of the page and the window, which have no flags.
//   - applies: when a change takes effect. load is the next model load, start is
//     the next start of the program, and now is immediately.
//
// A pointer is nil if the engine decides.
type Settings struct {
	Engine   Engine   `toml:"engine"`
	Sampling Sampling `toml:"sampling"`
	Server   Server   `toml:"server"`
	Library  Library  `toml:"library"`
	App      App      `toml:"app"`
}

// Engine holds the settings for loading and running a model.
type Engine struct {
	CtxSize  int    `toml:"ctx_size" name:"ctx-size" short:"c" placeholder:"N" default:"0" min:"0" max:"16777216" unit:"tokens" applies:"load" group:"Memory" gui:"Maximum tokens per chat. 0 is automatic: the model's full context, or what fits in half the free memory." help:"Maximum tokens of one conversation. 0: the model's full length, or what fits in half of the free memory."`
	KVCells  int    `toml:"kv_cells" name:"kv-cells" placeholder:"N" default:"0" min:"0" max:"16777216" unit:"tokens" applies:"load" group:"Memory" gui:"Maximum tokens in all chats together. 0 means the same as for one chat." help:"Maximum tokens of all conversations together. 0: as many as --ctx-size."`
	Parallel int    `toml:"parallel" name:"parallel" dash:"np" placeholder:"N" default:"8" min:"1" max:"1024" unit:"conversations" applies:"load" group:"Memory" gui:"How many chats can get responses at the same time. Each one reserves a little memory." help:"Maximum number of parallel conversations. They share the cache, except for the tokens that a cache type keeps exact."`
	MMap     bool   `toml:"mmap" name:"mmap" negatable:"" default:"true" applies:"load" group:"Memory" gui:"Use the model file directly from disk. The model loads faster and shares memory with other programs." help:"Map the model file into memory instead of reading it. This loads faster and shares memory with other programs."`
	MLock    bool   `toml:"mlock" name:"mlock" default:"false" applies:"load" group:"Memory" gui:"Never swap the model out to disk. Needs permission to lock memory." help:"Lock the weights in memory so that they are never swapped out. Needs permission to lock that much memory."`
	Repack   string `toml:"repack" name:"repack" default:"auto" enum:"auto,off" applies:"load" group:"Memory" gui:"Rearrange the weights for speed when a model is loaded. Turn off to save memory." help:"Repack the weights for the CPU at load. auto: if they fit in free memory; off: run from the mapped file, which is slower but takes less memory."`

	Backend      string   `toml:"backend" name:"backend" default:"auto" enum:"${backends}" applies:"load" group:"Device" gui:"Processor to use. Automatic picks the first GPU that passed a check on this computer, or else the CPU." help:"Backend to use. auto: the first GPU whose kernels passed a check on this machine (godwit device), else the CPU; emu emulates the GPU kernels on the CPU, slowly."`
	GPULayers    *int     `toml:"gpu_layers" name:"gpu-layers" dash:"ngl" placeholder:"N" min:"0" max:"100000" unit:"layers" applies:"load" group:"Device" gui:"Number of layers that run on the GPU. The rest run on the CPU. Automatic runs all layers on the GPU." help:"Number of layers that run on the GPU of --backend. The rest run on the CPU. Unset: all layers run on the GPU."`
	Threads      int      `toml:"threads" name:"threads" short:"t" placeholder:"N" default:"0" min:"0" max:"1024" unit:"threads" applies:"load" group:"Device" gui:"CPU threads. 0 uses one per physical core. More than that is slower." help:"CPU threads. 0: one for each physical core; more than that is slower."`
	BatchSize    int      `toml:"batch_size" name:"batch-size" short:"b" placeholder:"N" default:"2048" min:"1" max:"65536" unit:"tokens" applies:"load" accepted:"all" group:"Device" gui:"Prompt tokens per batch. This setting exists for compatibility with llama.cpp and has no effect." help:"Prompt tokens per batch in llama.cpp. Accepted, no effect: --ubatch-size bounds a step."`
	UBatch       int      `toml:"ubatch_size" name:"ubatch-size" dash:"ub" placeholder:"N" default:"512" min:"1" max:"65536" unit:"tokens" applies:"load" group:"Device" gui:"Tokens per step. A larger number processes prompts faster but uses more memory." help:"Maximum tokens per step (micro-batch). A larger number processes prompts faster and takes more memory."`
	MaxStep      int      `toml:"max_step" name:"max-step" placeholder:"MS" default:"150" min:"0" max:"600000" unit:"milliseconds" applies:"load" group:"Device" gui:"Longest pause in a response while another prompt is processed. 0 means no limit." help:"Longest step while an answer is generated. Other prompts are then processed in smaller chunks. A prompt without a running answer is processed at full speed. 0: no limit. Answers do not change."`
	Draft        string   `toml:"draft" name:"draft" placeholder:"ngram|MODEL" default:"off" applies:"load" group:"Device" gui:"Faster responses: a small model with the same vocabulary guesses the next words. ngram guesses from repeated text. Responses do not change." help:"Speculative decoding: propose several tokens and verify them in one step. Answers do not change. A small model with the same vocabulary (a file, or a name from 'godwit list') proposes what it would write; ngram proposes what followed the newest tokens earlier in the conversation; off: nothing."`
	ChatTemplate []string `toml:"chat_template" name:"chat-template" placeholder:"FILE|NAME" sep:"none" applies:"load" group:"Device" gui:"Chat template to use instead of the model's own: a file or the name of a built-in template." help:"Chat template (Jinja) in place of the model's own: a file, or a built-in one such as chatml. MODEL=FILE|NAME sets it for one model. May be given several times."`
	LoRA         []string `toml:"lora" name:"lora" placeholder:"FILE" sep:"none" applies:"load" group:"Device" gui:"LoRA adapter files (GGUF) to apply when a model is loaded." help:"LoRA adapter (GGUF) to apply at load. May be given several times."`
	MMProj       string   `toml:"mmproj" name:"mmproj" placeholder:"FILE" default:"" applies:"load" group:"Device" gui:"Projector file (GGUF) for images. If empty, a file mmproj-*.gguf in the model's folder is used." help:"Projector (mmproj GGUF) for pictures. Empty: a file mmproj-*.gguf in the model's folder; off: none."`
	ImageMin     int      `toml:"image_min_tokens" name:"image-min-tokens" placeholder:"N" default:"0" min:"0" max:"65536" unit:"tokens" applies:"load" group:"Device" gui:"Minimum tokens per image, for models that keep the shape of an image. 0 uses the model's default." help:"Minimum tokens per picture, for vision towers with dynamic size. 0: the model family's default."`
	ImageMax     int      `toml:"image_max_tokens" name:"image-max-tokens" placeholder:"N" default:"0" min:"0" max:"65536" unit:"tokens" applies:"load" group:"Device" gui:"Maximum tokens per image, for models that keep the shape of an image. 0 uses the model's default." help:"Maximum tokens per picture, for vision towers with dynamic size. 0: the model family's default."`

	CacheTypeK     string  `toml:"cache_type_k" name:"cache-type-k" dash:"ctk" placeholder:"TYPE" default:"" from:"kv" applies:"load" group:"KV cache" gui:"Type of the cached keys. If empty, the KV preset decides." help:"Type of the cached keys. Empty: the type of --kv-preset, or f16 without a preset. 'godwit kv types' lists the types."`
	CacheTypeV     string  `toml:"cache_type_v" name:"cache-type-v" dash:"ctv" placeholder:"TYPE" default:"" from:"kv" applies:"load" group:"KV cache" gui:"Type of the cached values. Values tolerate fewer bits than keys." help:"Type of the cached values. Values tolerate fewer bits than keys."`
	DraftTypeK     string  `toml:"cache_type_k_draft" name:"cache-type-k-draft" dash:"ctkd" placeholder:"TYPE" default:"f16" from:"kv" applies:"load" group:"KV cache" gui:"Type of the cached keys of the model that guesses the next words." help:"Type of the cached keys of the --draft model."`
	DraftTypeV     string  `toml:"cache_type_v_draft" name:"cache-type-v-draft" dash:"ctvd" placeholder:"TYPE" default:"f16" from:"kv" applies:"load" group:"KV cache" gui:"Type of the cached values of the model that guesses the next words." help:"Type of the cached values of the --draft model."`
	KVPreset       string  `toml:"kv_preset" name:"kv-preset" default:"off" enum:"off,quality,balanced,small" applies:"load" group:"KV cache" gui:"A tested pair of cache types, from no measured loss to the least memory." help:"Pair of cache types that the quality lab has measured, from lossless to smallest."`
	KVPolicy       *int    `toml:"kv_policy" name:"kv-policy" placeholder:"0-7" vars:"TURBO_LAYER_ADAPTIVE" min:"0" max:"7" applies:"load" group:"KV cache" gui:"Use better types in some layers. Automatic does this only if the chosen types need it." help:"Layer policy: better types in some layers. 7 keeps the values of the first and last two layers at 8 bits (Boundary V), 0 is off. Unset: 7 if the types need it."`
	BoundaryBy     string  `toml:"boundary_by" name:"boundary-by" default:"cache" enum:"cache,layer" applies:"load" group:"KV cache" gui:"Whether a layer policy counts only layers with a cache, or all layers." help:"What a layer policy counts: layers that own a cache, or all layers."`
	AutoAsymmetric bool    `toml:"auto_asymmetric" name:"auto-asymmetric" negatable:"" vars:"TURBO_AUTO_ASYMMETRIC" default:"true" applies:"load" group:"KV cache" gui:"Store keys in 8 bits if many heads share them. Uses more memory to preserve quality." help:"Raise keys to 8 bits if six or more query heads share a key head, because they also share its error. Takes more memory and keeps quality."`
	SWABypass      *bool   `toml:"swa_bypass" name:"swa-bypass" negatable:"" applies:"load" group:"KV cache" gui:"Leave sliding-window layers uncompressed, because they are small." help:"Keep layers with a sliding window at f16, because they are small. Unset: the type's default."`
	KVStrict       bool    `toml:"kv_strict" name:"kv-strict" default:"false" applies:"load" group:"KV cache" gui:"Refuse to load a model if a layer cannot use the requested cache type." help:"Refuse to load if a layer would get a different cache type from the one requested."`
	TBQTemperature bool    `toml:"tbq_temperature" name:"tbq-temperature" negatable:"" default:"true" applies:"load" group:"KV cache" gui:"Sharpen attention over tbq keys to offset their noise. This costs nothing." help:"Sharpen attention over tbq keys to compensate for quantisation noise. Costs nothing."`
	SparseV        float64 `toml:"sparse_v" name:"sparse-v" placeholder:"TAU" vars:"TURBO_SPARSE_V" default:"1e-6" min:"0" max:"1" applies:"load" group:"KV cache" gui:"Skip values with an attention weight below this threshold. Faster in long chats. 0 reads all values." help:"Sparse V: skip values with an attention weight below TAU. Faster at long contexts. 0: off."`
	KVMemory       Size    `toml:"kv_memory" name:"kv-memory" placeholder:"SIZE" default:"0" min:"0" unit:"bytes" applies:"load" group:"KV cache" gui:"Cache memory for one chat. As many of its newest tokens as fit stay uncompressed. In a short chat, all tokens do. 0 is off." help:"Memory for the cache of one conversation. As many of its newest tokens as fit stay unpacked, in 16 bits: all of them while it is short, fewer as it grows. --exact-window then sets the minimum. CPU only. 0: off."`
	ExactWindow    *int    `toml:"exact_window" name:"exact-window" placeholder:"N" min:"0" max:"65536" unit:"tokens" applies:"load" group:"KV cache" gui:"Number of newest tokens that stay uncompressed. Improves responses but uses a little memory." help:"Keep the newest N tokens unpacked. Improves answers and takes a little memory. Unset: the type's default."`
	ExactSinks     *int    `toml:"exact_sinks" name:"exact-sinks" placeholder:"N" min:"0" max:"64" unit:"tokens" applies:"load" group:"KV cache" gui:"Number of first tokens that stay uncompressed." help:"Keep the first N tokens unpacked (attention sinks). Unset: the type's default."`
	KVAuto         float64 `toml:"kv_auto" name:"kv-auto" placeholder:"BITS" default:"0" min:"2" max:"4" off:"0" unit:"bits" applies:"load" group:"KV cache" gui:"Average bits per value, 2 to 4. Godwit gives more bits to the layers that matter more. 0 is off." help:"Average bits per value, 2 to 4. Each layer's keys and values get more or fewer bits by their measured sensitivity. Replaces the cache types. 0: off."`
	KVCalibrate    bool    `toml:"kv_calibrate" name:"kv-calibrate" negatable:"" default:"true" applies:"load" group:"KV cache" gui:"Calibrate each model once, in the background, if its cache type needs it. If off, each chat is calibrated on its own first tokens." help:"Calibrate a model's keys the first time a cache type needs it. This happens once per model, takes up to a few minutes and resumes after an interruption. With the page, it runs in the background. If off, every conversation calibrates itself on its first 127 tokens."`
	InnerQ         InnerQ  `toml:"innerq" name:"innerq" placeholder:"N[,STRENGTH]" default:"0" applies:"load" group:"KV cache" gui:"When a model is loaded, scale the channels of rotated keys to similar sizes (InnerQ). 0 is off." help:"Equalise the channels of rotated keys (InnerQ), measured at load on N groups of 128 values of a built-in text. 0: off."`
	AttnMath       string  `toml:"attn_math" name:"attn-math" default:"auto" enum:"auto,float,int8" applies:"load" accepted:"int8" group:"KV cache" gui:"Precision of attention over compressed types. Automatic uses integers where they are faster." help:"Arithmetic of attention over packed cache types. auto uses integers where they are faster; float always uses floats; int8 is accepted and means auto."`
	ContextShift   bool    `toml:"context_shift" name:"context-shift" negatable:"" default:"false" applies:"load" group:"KV cache" gui:"When a chat fills its context, drop the middle of the chat and continue instead of stopping." help:"When a conversation is full, drop its middle and continue, instead of ending the answer."`
	ReuseShifted   int     `toml:"reuse_shifted" name:"reuse-shifted" placeholder:"N" default:"0" min:"0" max:"65536" off:"0" unit:"tokens" applies:"load" group:"KV cache" gui:"Reuse unchanged text after an edit if it has at least this many tokens. Faster, but responses change slightly. 0 is off." help:"Reuse unchanged text after an edit if it has at least N tokens, at its new position, instead of computing it again. This changes answers slightly (docs/performance.md). 0: off."`
}

// Sampling holds the defaults for requests that do not set a sampling parameter.
type Sampling struct {
	Temperature float64 `toml:"temperature" name:"temp" placeholder:"T" default:"0.8" min:"0" max:"2" applies:"now" group:"Sampling" gui:"Higher values are more creative, lower values more focused. 0 always picks the likeliest token." help:"Randomness. 0: always the likeliest token."`
	TopK        int     `toml:"top_k" name:"top-k" placeholder:"N" default:"40" min:"0" max:"1000000" unit:"tokens" applies:"now" group:"Sampling" gui:"Choose among this many of the likeliest tokens. 0 means no limit." help:"Sample from the N likeliest tokens. 0: from all."`
	TopP        float64 `toml:"top_p" name:"top-p" placeholder:"P" default:"0.95" min:"0" max:"1" applies:"now" group:"Sampling" gui:"Choose among the likeliest tokens that together reach this probability. 1 means no limit." help:"Sample from the likeliest tokens with a total probability of P. 1: from all."`
	MinP        float64 `toml:"min_p" name:"min-p" placeholder:"P" default:"0.05" min:"0" max:"1" applies:"now" group:"Sampling" gui:"Ignore tokens that are much less likely than the likeliest one. 0 is off." help:"Drop tokens that are less likely than P times the likeliest token. 0: drop none."`
	Seed        *int64  `toml:"seed" name:"seed" short:"s" placeholder:"N" min:"-1" max:"9007199254740991" applies:"now" group:"Sampling" gui:"The same seed gives the same response. -1 uses a new seed each time." help:"The same seed and request give the same answer. Unset or -1: another answer each time."`
	Predict     int     `toml:"predict" name:"predict" short:"n" placeholder:"N" default:"-1" min:"-1" max:"16777216" unit:"tokens" applies:"now" group:"Sampling" gui:"Maximum tokens per response. -1 means no limit." help:"Maximum tokens of an answer. -1: until the model ends it or the context is full."`
}

// Server holds the settings of the API on localhost.
type Server struct {
	Host               string   `toml:"host" name:"host" placeholder:"ADDRESS" default:"127.0.0.1" applies:"start" group:"Server" gui:"Address to listen on. Any address except 127.0.0.1 opens the server to other computers and requires an API key." help:"Address to listen on. Any address except loopback opens the server to other machines and requires an API key."`
	Port               int      `toml:"port" name:"port" placeholder:"N" default:"11711" min:"0" max:"65535" applies:"start" group:"Server" gui:"Port of the API. 0 takes any free port." help:"Port to listen on. 0: any free port."`
	UnixSocket         string   `toml:"unix_socket" name:"unix-socket" placeholder:"PATH" default:"" applies:"start" group:"Server" gui:"Socket file to listen on instead of a port. Only your own programs can use it." help:"Unix socket to listen on, instead of a port. Its mode is 0600, so only programs of this user can connect."`
	TLSCert            string   `toml:"tls_cert" name:"tls-cert" placeholder:"FILE" default:"" applies:"start" group:"Server" gui:"Certificate file (PEM) for HTTPS. It is read again when it changes." help:"Certificate in PEM form, followed by its chain: serve HTTPS. The file is read again when it changes. Needs --tls-key."`
	TLSKey             string   `toml:"tls_key" name:"tls-key" placeholder:"FILE" default:"" applies:"start" group:"Server" gui:"Private key file (PEM) for the certificate." help:"Private key of --tls-cert in PEM form."`
	APIKey             []string `toml:"api_key" name:"api-key" placeholder:"KEY" secret:"" form:"key" applies:"start" group:"Server" gui:"API keys that programs must send." help:"API key that clients must send. May be given several times."`
	KeyFile            string   `toml:"key_file" name:"key-file" placeholder:"FILE" default:"" applies:"start" group:"Server" gui:"File with named API keys. If empty, keys.json in the settings folder is used." help:"File of named API keys, which 'godwit key' writes. Empty: keys.json beside config.toml."`
	AllowedHost        []string `toml:"allowed_host" name:"allowed-host" placeholder:"NAME" form:"host" applies:"start" group:"Server" gui:"Additional host names that requests may use." help:"Additional host name that requests may use. May be given several times."`
	AllowedOrigin      []string `toml:"allowed_origin" name:"allowed-origin" placeholder:"URL" form:"origin" applies:"start" group:"Server" gui:"Origins of the web pages that may use the API." help:"Web origin that may use the API. May be given several times."`
	KeepAlive          Duration `toml:"keep_alive" name:"keep-alive" placeholder:"TIME" default:"5m" min:"-1" applies:"now" group:"Server" gui:"Unload idle models after this time. 0 unloads at once, -1 never." help:"Unload a model after it has been idle for this long. 0: at once. -1: never."`
	SlotSavePath       string   `toml:"slot_save_path" name:"slot-save-path" placeholder:"FOLDER" default:"" applies:"start" group:"Server" gui:"Folder for caches that API clients save with /slots. If empty, the data folder is used." help:"Folder for saved conversations. Empty: the data folder."`
	PrefixDisk         *Size    `toml:"prefix_disk" name:"prefix-disk" placeholder:"SIZE" min:"0" unit:"bytes" applies:"start" group:"Server" gui:"Disk space for stored prompts, which models do not have to process again. Automatic uses up to 8 GiB. 0 stores nothing on disk." help:"Disk limit for stored prompts, which need not be computed again even after a restart. The least valuable are deleted first. Unset: 8 GiB or a tenth of the free disk, whichever is less, or nothing if less than 2 GiB or 5 % of the disk is free. 0: store nothing on disk."`
	Memory             *Size    `toml:"memory" name:"memory" placeholder:"SIZE" min:"67108864" unit:"bytes" applies:"start" group:"Server" gui:"Memory for models, chats and stored prompts together. Automatic uses the memory that is free when Godwit starts, minus a reserve." help:"Host memory for models, caches and stored prompts together. A model that does not fit waits until others are unloaded. Unset: the free memory minus a gigabyte or an eighth of all memory, whichever is more."`
	PrefixMemory       *Size    `toml:"prefix_memory" name:"prefix-memory" placeholder:"SIZE" min:"0" unit:"bytes" applies:"start" group:"Server" gui:"Memory for stored prompts, in addition to running chats. Automatic uses the memory that models do not use." help:"Memory for stored prompts, in addition to the caches of running conversations. Unset: the rest of --memory that models do not use. 0: none."`
	SharePrefixes      bool     `toml:"share_prefixes" name:"share-prefixes" negatable:"" default:"false" applies:"start" group:"Server" gui:"Share stored prompts between API keys. Clients can then tell from response times whether another client has sent the same text." help:"Share processed prompts between clients with different API keys. Clients can then tell from response times whether another client has sent a text."`
	StateBudget        Size     `toml:"state_budget" name:"state-budget" placeholder:"SIZE" default:"4GiB" min:"0" unit:"bytes" applies:"now" group:"Server" gui:"Disk space for caches that API clients save with /slots. The oldest are deleted first. 0 saves none." help:"Disk limit for caches that API clients save with /slots. The oldest are deleted first. 0: save none."`
	ChatTemplateKwargs string   `toml:"chat_template_kwargs" name:"chat-template-kwargs" placeholder:"JSON" default:"" form:"object" applies:"now" group:"Server" gui:"Variables for the chat template, as a JSON object." help:"Object whose keys become variables in the chat template."`
	Reasoning          string   `toml:"reasoning" name:"reasoning" default:"auto" enum:"auto,on,off" applies:"now" group:"Server" gui:"Whether models that can reason do so before they respond." help:"Whether reasoning models think before they answer. auto: the template decides."`
	KeepClientHeaders  bool     `toml:"keep_client_headers" name:"keep-client-headers" negatable:"" default:"false" applies:"now" group:"Server" gui:"Keep the billing line that some clients add to the system prompt. This line prevents reuse of the prompt." help:"Keep the line x-anthropic-billing-header: in the system prompt. It changes with every request, which prevents reuse of the prompt."`
	ReasoningBudget    int      `toml:"reasoning_budget" name:"reasoning-budget" placeholder:"N" default:"-1" min:"-1" max:"16777216" unit:"tokens" applies:"now" group:"Server" gui:"Maximum reasoning tokens per response. -1 means no limit." help:"Maximum reasoning tokens. At the limit, reasoning ends and the answer follows. -1: no limit. 0: no reasoning."`
	ReasoningMessage   string   `toml:"reasoning_budget_message" name:"reasoning-budget-message" placeholder:"TEXT" default:"" applies:"now" group:"Server" gui:"Text inserted when the reasoning limit is reached." help:"Text inserted when --reasoning-budget ends the reasoning."`
	AllowImageURLs     bool     `toml:"allow_image_urls" name:"allow-image-urls" negatable:"" default:"false" applies:"now" group:"Server" gui:"Download an image if a program sends the web address of one. Addresses in this computer's network are never read." help:"Read pictures from http(s) URLs in requests, but never from loopback, private or link-local addresses. If off, only data: URLs are read."`
	RequestLog         bool     `toml:"request_log" name:"request-log" negatable:"" default:"false" applies:"now" group:"Server" gui:"Log the method, path, model, tokens and time of every request, but never message text." help:"Log method, path, model, tokens and time of each request, never message text."`
	AuditLog           string   `toml:"audit_log" name:"audit-log" placeholder:"FILE" default:"" applies:"start" group:"Server" gui:"File with one line per request: key, model, tokens, status and time, never message text." help:"File with a JSON line for each request: time, method, path, status, duration, key name, model and tokens, never message text. It is rotated at 64 MiB."`
}

// Library holds the settings for the sources of models.
type Library struct {
	HubURL    string   `toml:"hub_url" name:"hub-url" placeholder:"URL" default:"https://huggingface.co" form:"url" applies:"now" group:"Library" gui:"Site to search and download models from." help:"Model hub to search and download from."`
	HubToken  string   `toml:"hub_token" kong:"-" secret:"" vars:"HF_TOKEN" default:"" applies:"now" group:"Library" gui:"Access token for models whose licence must be accepted. It is sent to the hub only." help:"Access token for models whose licence must be accepted. It is sent to the hub only."`
	Downloads bool     `toml:"downloads" name:"downloads" negatable:"" default:"true" applies:"now" group:"Library" gui:"Search the hub and download models from it. If off, only models on this computer are used." help:"Search the hub and download models from it. If off, only models on this machine are used."`
	Folders   []string `toml:"folders" name:"models-folder" placeholder:"FOLDER" sep:"none" applies:"now" group:"Library" gui:"Additional folders with models." help:"Additional folder with models. May be given several times."`
}

// App holds the settings of the program itself.
type App struct {
	LogLevel   string `toml:"log_level" name:"log-level" default:"info" enum:"debug,info,warn,error" applies:"now" group:"Application" gui:"How much is written to the log." help:"How much is logged."`
	Theme      string `toml:"theme" kong:"-" default:"system" enum:"system,light,dark" applies:"now" group:"Application" gui:"Light, dark, or the same as the system." help:"Colours of the window."`
	ChatTitles bool   `toml:"chat_titles" kong:"-" default:"true" applies:"now" group:"Application" gui:"Let the model name each new chat after its first response, once the model is idle." help:"Let the model give new chats a title."`
	Welcomed   bool   `toml:"welcomed" kong:"-" default:"false" applies:"now" hidden:"" group:"Application" help:"The window has been opened before."`
}
