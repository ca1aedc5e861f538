/** Modules that Node loads before it runs a program, or that nearly every part uses: not worth deferring. */
const LOADED = 'buffer|events|fs|fs/promises|module|path|process|timers|timers/promises|url|util';

const REQUIRED = new RegExp(
  String.raw`\b(import_\w+)=((?:__toESM\()?require\("node:(?!(?:${LOADED})")[\w/]+"\)(?:(?:,1)?\))?)`,
  'g',
);

/**
 * Lets a part ask for a module of the runtime when it first uses one of its members, since to load crypto, net, http
 * and tls takes as long as a start of Node. The text is what esbuild writes for a static import:
 * `import_node_net=require("node:net")` and uses such as `(0,import_node_net.isIP)(…)`. The variable holds an object
 * whose members replace it with the module. A variable with other uses stays unchanged.
 */
export function lazyBuiltins(code: string): string {
  return code.replaceAll(REQUIRED, (all, variable: string, required: string) => {
    const uses = [
      ...code.matchAll(new RegExp(String.raw`(?<![\w$.])${variable}(?![\w$])(\.([A-Za-z_$][\w$]*))?`, 'g')),
    ];
    const members = new Set(uses.flatMap(([, , member]) => (member === undefined ? [] : [member])));
    const others = uses.filter(([, , member]) => member === undefined).length - 1; // except for this one
    if (others > 0 || members.size === 0) return all;
    const getters = [...members].map((member) => `get ${member}(){return(${variable}=${required}).${member}}`);
    return `${variable}={${getters.join(',')}}`;
  });
}
