# The formula for Homebrew on Linux. Nobody has tried it: there was no Homebrew where it was written.
class Tenure < Formula
  desc "Coordinates work that is done and recorded exactly once"
  homepage "{{base}}"
  url "{{base}}/{{archive}}"
  version "{{version}}"
  sha256 "{{sha256}}"
  license any_of: ["MIT", "Apache-2.0"]
  depends_on :linux

  def install
    bin.install "tenure"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/tenure.bash" => "tenure"
    zsh_completion.install "completions/_tenure"
    fish_completion.install "completions/tenure.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/tenure --version")
  end
end
