// server.js DIRECTORY: a server that has its log open, starts a child for each of two requests, and
// then replaces its state, as programs do that run on Node.
const fs = require('fs')
const http = require('http')
const { spawn, execFileSync } = require('child_process')

const directory = process.argv[2]
const log = fs.openSync(directory + '/log', 'a')
const state = { requests: 0 }

const server = http.createServer((request, response) => {
	state.requests++
	fs.writeSync(log, 'answered ' + state.requests + '\n')
	const child = spawn('echo', ['from a child'], { stdio: ['ignore', log, 'inherit'] })
	child.on('exit', (code) => {
		execFileSync('true')
		response.end(String(code))
	})
})

function ask(next) {
	http.get({ host: '127.0.0.1', port: server.address().port }, (response) => {
		response.resume()
		response.on('end', next)
	})
}

fs.writeSync(log, 'begins\n')
server.listen(0, '127.0.0.1', () => ask(() => ask(() => {
	fs.writeFileSync(directory + '/state.new', JSON.stringify(state))
	fs.renameSync(directory + '/state.new', directory + '/state')
	fs.closeSync(log)
	server.close()
	process.exit(0)
})))
